"""Admission on the real control plane: what a person posts, and what becomes of it."""
