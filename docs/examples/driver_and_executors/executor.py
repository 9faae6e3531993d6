"""An executor: squares what the driver sends, and keeps its scratch work in a volume that goes with it."""

import os
import sys
from pathlib import Path

sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join

gang = join()
scratch = Path(os.environ["FATE_FLOW_VOLUME_SCRATCH"]) / "numbers"
scratch.write_bytes(gang.receive(0))
gang.send(0, str(sum(int(word) ** 2 for word in scratch.read_text().split())).encode())
