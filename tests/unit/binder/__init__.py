"""The binder's parts without a cluster."""
