"""One collection followed through everything that a watch can do (virtual time, no network)."""
