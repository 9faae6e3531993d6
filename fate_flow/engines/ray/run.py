"""What a job of Ray executes: `python -P -m fate_flow.engines.ray.run FOLDER`.

Processes of a job survive the end of Ray on their machine. This one would then run a worker that nobody lists any more,
so it ends with the process of Ray that has started it. For the programs of users it keeps the address of Ray, which the
runner hands on with other variables of Ray.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from fate_flow.core.model.program_scope import FATE_FLOW_RAY_ADDRESS, RAY_ADDRESS
from fate_flow.engines.local import proc
from fate_flow.engines.placed import run


def main(argv: Sequence[str]) -> int:
    begin()
    return run.main(argv)


def begin() -> None:
    """Make this process, which is the job, end with Ray, and keep what Ray tells its jobs."""
    proc.die_with_parent(os.getppid(), signal.SIGTERM)
    if address := os.environ.get(RAY_ADDRESS):
        os.environ[FATE_FLOW_RAY_ADDRESS] = address


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
