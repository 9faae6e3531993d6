"""An executor: it squares the numbers of the driver, and keeps temporary data in a volume that is removed with it."""

import os
import sys
from pathlib import Path

sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
from fate_flow.components.gang import join

gang = join()
scratch = Path(os.environ["FATE_FLOW_VOLUME_SCRATCH"]) / "numbers"
scratch.write_bytes(gang.receive(0))
gang.send(0, str(sum(int(word) ** 2 for word in scratch.read_text().split())).encode())
