"""Benchmarks: what a change costs, what reading costs, and whether figures keep up."""
