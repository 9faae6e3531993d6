"""What the server learns at once of a worker that it stopped before it began: no runner is there to tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fate_flow.adapters import LocalWorkers
from fate_flow.core.job import TaskKey, Worker
from fate_flow.core.spec import Party
from fate_flow.core.status import WorkerStatus
from fate_flow.engine.local import LocalEngine
from fate_flow.engine.worker import CLAIMED
from fate_flow.settings import Settings

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))


def test_the_scheduler_hears_of_a_worker_that_never_begins_and_of_no_other(tmp_path: Path) -> None:
    rung: list[Any] = []
    bell: Any = SimpleNamespace(send=lambda *_: None)
    workers = LocalWorkers(
        Settings("9999", tmp_path), LocalEngine(bell), "http://x", b"secret", lambda text: rung.append(json.loads(text))
    )
    never, running = (Worker(name, KEY, WorkerStatus.CREATED, str(tmp_path / name)) for name in ("never", "running"))
    Path(running.folder).mkdir()
    (Path(running.folder) / CLAIMED).write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    for worker in (never, running):
        workers.stop(worker, 10.0)
    assert rung == [{"worker": never.folder, "event": "exited"}]
    assert workers.look(never).state == "exited"
