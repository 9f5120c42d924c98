"""How many worlds: as `make test` has them, or with `--hypothesis-profile=soak` ten thousand."""

from hypothesis import settings

settings.register_profile("soak", max_examples=10_000, deadline=None)
