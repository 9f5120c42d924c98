"""Pure code, no process and no socket."""
