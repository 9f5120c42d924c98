"""The binder on a seeded cluster with faults: a fake API server, actors, and who judges."""
