"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes no test fail: nothing is judged by how long it took.
settings.register_profile("fate_flow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fate_flow")
