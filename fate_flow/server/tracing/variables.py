"""The variables of OpenTelemetry in the environment, which neither the server reads nor a worker gets."""

from __future__ import annotations

import os

from fate_flow.engines.local import proc

_OF_SDK = "OTEL_"


def take_variables_of_sdk() -> list[str]:
    """Remove the variables of OpenTelemetry from the environment, and return their names. The SDK would let them change
    what the configuration says, and each worker would get them, with a token in one of them."""
    found = sorted(name for name in os.environ if name.startswith(_OF_SDK))
    for name in found:
        proc.take_variable(name)
    return found
