"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says more about who else uses the machine than about what is tested; bench/ measures speed.
settings.register_profile(
    "kubeloop", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("kubeloop")
