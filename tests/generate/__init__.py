"""Makes the files that are generated from the models: `python -m tests.generate`."""
