"""Tests of the door to Kubernetes, on a real API server."""
