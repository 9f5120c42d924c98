"""What all tests share."""

from hypothesis import HealthCheck, settings

# The machine is shared: an example's time says nothing, so no deadline.
settings.register_profile(
    "default", deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
