"""The binder's process on the real control plane."""
