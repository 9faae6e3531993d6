"""What a placed job executes: the runner of one worker.

`python -P -m fate_flow.engines.placed.run FOLDER`

The process that a cluster starts leads its group, and a runner leaves its session, so the runner is a child. This
process passes on the signals of the cluster, and ends as the worker did: the cluster then shows that exit code.

A cluster that ends a job at its limit of time sends SIGUSR1 first, so that its worker has its grace: a worker that then
ends by itself leaves the cluster nothing to say, so this process notes the cause.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fate_flow.engines.local import proc
from fate_flow.engines.local.runner import WAITED_SIGNALS, run_worker
from fate_flow.engines.local.worker import (
    LAUNCH,
    SECOND,
    Exit,
    ProcessId,
    claimer,
    is_claimed_elsewhere,
    read_json,
    write_atomically,
)
from fate_flow.engines.placed.folder import request_stop, seconds_of
from fate_flow.engines.placed.probe import why_not_the_home
from fate_flow.engines.placed.way import lead_to, way_of
from fate_flow.engines.staged.loopback import Loopback

TIME_IS_OVER = signal.SIGUSR1
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAITED = WAITED_SIGNALS | {TIME_IS_OVER}
_NO_END = 70
OTHER_HOME = 78                  # the exit code for the cluster; what is wrong is in its output


def main(argv: Sequence[str]) -> int:
    """Run the worker of the folder, unless another process has claimed it; return the exit code for the cluster."""
    folder = Path(argv[0])
    if why := why_not_the_home(folder):
        sys.stderr.write(f"{why}\n")
        return OTHER_HOME
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    parent, way = os.getpid(), way_of(os.environ)
    child = os.fork()
    if child == 0:
        _become_runner(folder, parent, way)
    if way is not None:
        way.begin()
    _wait_for(child, folder)
    return _exit_code(Exit.read(folder))


def _become_runner(folder: Path, parent: int, way: Loopback | None) -> None:
    code = 1
    try:
        proc.die_with_parent(parent, signal.SIGTERM)      # a cluster may kill the leader of the job alone
        run_worker(folder, prepare=partial(lead_to, folder, way.port) if way is not None else None)
        _note_claim_of_another(folder)
        code = 0
    finally:
        os._exit(code)


def _note_claim_of_another(folder: Path) -> None:
    """A controller with an old state may start a job again, on another node, and knows only the end of this one."""
    is_own = claimer(folder) == ProcessId.of(os.getpid()) and not is_claimed_elsewhere(folder)
    if not is_own and Exit.read(folder) is None:
        write_atomically(folder / SECOND, "", is_durable=False)


def _wait_for(child: int, folder: Path) -> None:
    while True:
        number = signal.sigwait(_WAITED)
        if number == TIME_IS_OVER:
            order = read_json(folder / LAUNCH) or {}
            request_stop(folder, seconds_of(order.get("grace_seconds")), "timeout")
        if number in (*_PASSED_ON, TIME_IS_OVER):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        if os.waitpid(child, os.WNOHANG)[0]:
            return


def _exit_code(end: Exit | None) -> int:
    if end is None:
        return _NO_END
    if end.exit_code is not None:
        return end.exit_code
    return 128 + end.signal if end.signal else _NO_END


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
