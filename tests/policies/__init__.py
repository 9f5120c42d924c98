"""The policies on a real API server: who may do what to objects that are there (rule 6.6)."""
