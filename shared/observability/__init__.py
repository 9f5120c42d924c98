"""Metrics, structured logs, health checks."""
