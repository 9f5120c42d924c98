"""Where a set fits, and which node takes it (rules 7.5 and 7.6)."""
