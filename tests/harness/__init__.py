"""The tests' own tools, held to what they promise."""
