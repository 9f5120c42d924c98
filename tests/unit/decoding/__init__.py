"""Objects as the API server sends them become the values that rules are about."""
