"""The decisions of admission, as functions of an object and of what was read (rule 6)."""
