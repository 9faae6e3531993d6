"""A new field of a job takes four files: a copy of the package gets one, and both stores keep it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fate_flow_sql

import fate_flow

COLUMN = "ALTER TABLE t_job ADD COLUMN f_note VARCHAR(100) NOT NULL DEFAULT '';\n"
EDITS = {
    "fate_flow_sql/migrations/9999_note.sql": ("", COLUMN),
    "fate_flow/store/database/models.py": (
        "    f_losses = IntegerField(default=0)\n", '    f_note = CharField(100, default="")\n',
    ),
    "fate_flow/core/model/job.py": (
        "    changed: tuple[str, ...] = ()        # components whose parameters changed since the present run began\n",
        '    note: str = ""\n',
    ),
    "fate_flow/store/contract/changes.py": (
        '    change: Change = {"status": move.new, **_why(move.reason, move.message)}\n',
        '    change["note"] = f"{job.note}, then {move.new.value}"\n',
    ),
}  # fmt: skip
"""By file: a line, and what is written below it. The last one is what changes the field."""

ROUND_TRIP = """
from pathlib import Path
import fate_flow
from fate_flow.core.model.job import Job, JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.values import Document

guest = Party("guest", "9999")
job = Job(JobKey("j1", guest), guest, True, JobStatus.WAITING, parties=(guest,), note="submitted")
database = open_database("sqlite:///:memory:", Path())
upgrade(database)
print(Path(fate_flow.__file__).parent)
for store in (MemoryStore(), SqlStore(database)):
    with store.transaction() as tx:
        tx.add_job(job, Document({}, {}, {}))
    with store.transaction() as tx:
        added = tx.job(job.key)
        tx.move_job(added, MoveJob(JobStatus.RUNNING), 1)
    with store.transaction() as tx:
        print(type(store).__name__, added.note, tx.job(job.key).note, sep=": ")
"""


def test_a_new_field_of_a_job_takes_four_files(tmp_path: Path) -> None:
    assert len(EDITS) == 4
    for package in (fate_flow, fate_flow_sql):
        (folder,) = package.__path__
        shutil.copytree(folder, tmp_path / package.__name__, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (line, below) in EDITS.items():
        text = (tmp_path / name).read_text(encoding="utf-8") if line else ""
        assert text.count(line) == 1 or not line, f"{name} has not, or more than once: {line}"
        (tmp_path / name).write_text(text.replace(line, line + below, 1) if line else below, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-c", ROUND_TRIP], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        str(tmp_path / "fate_flow"),
        "MemoryStore: submitted: submitted, then running",
        "SqlStore: submitted: submitted, then running",
    ], done.stderr
