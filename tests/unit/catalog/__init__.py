"""The options as they are kept, and their readers."""
