"""The tests; nothing here ships."""
