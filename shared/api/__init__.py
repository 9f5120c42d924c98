"""Our kinds as they are stored and served, and the slices of other kinds that we read."""
