"""The variables of OpenTelemetry, of which workers get none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_PROGRAM = """
import json, os, subprocess, sys
from fate_flow.server.tracing.variables import take_variables_of_sdk

taken = take_variables_of_sdk()
if os.fork():                    # as the spawner, from which components run
    os.wait()
    sys.exit()
shown = open("/proc/self/environ", "rb").read().decode()
executed = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
print(json.dumps({"taken": taken, "own": dict(os.environ), "shown": shown, "executed": executed}))
"""


def test_what_is_forked_or_executed_later_has_none_of_them_and_cannot_read_them() -> None:
    given = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hidden", "OTEL_SDK_DISABLED": "true", "KEPT": "yes"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=os.environ | given, check=True, capture_output=True, text=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert found["taken"] == ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SDK_DISABLED"]
    assert "hidden" not in done.stdout
    assert "OTEL_" not in found["executed"] + "".join(found["own"])
    assert found["own"]["KEPT"] == "yes"
    assert "KEPT=yes" in found["executed"]
