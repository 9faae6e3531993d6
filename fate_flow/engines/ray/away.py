"""What a job of Ray executes on a host without the home of the server: the agent of one staged worker.

`python -P -m fate_flow.engines.ray.away FOLDER WORKER`

The claim token of the worker is in the metadata of the job, where whoever may use Ray can read it, and nobody else. Its
environment would be in more places: in a log on the node that all its users can read, and in Ray's list of actors,
which has it after the job was removed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from fate_flow.core.model.program_scope import RAY_JOB_CONFIG
from fate_flow.engines.local import proc
from fate_flow.engines.placed import away
from fate_flow.engines.ray.run import begin
from fate_flow.engines.staged.places import CLAIM


def main(argv: Sequence[str]) -> int:
    begin()
    with suppress(KeyError, TypeError, ValueError):       # without a token, the agent says so
        take_claim_token()
    return away.main(argv)                                # what it prints is Ray's log of the job


def take_claim_token() -> None:
    """Give the agent what Ray has told this process; programs of the worker get the rest of it."""
    config = json.loads(proc.take_variable(RAY_JOB_CONFIG))
    token = config["metadata"].pop(CLAIM)
    os.environ[RAY_JOB_CONFIG] = json.dumps(config)
    os.environ[CLAIM] = token


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
