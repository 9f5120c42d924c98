"""The catalog as tenants see it: our real process behind a real control plane."""
