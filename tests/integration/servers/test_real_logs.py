"""Logs may be removed at any moment: no job fails for it, and what is written afterwards is there again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.servers.party_servers import GUEST, HOST, Cluster, toy
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("removed", ["", f"guest/{GUEST}/toy_0"], ids=["of the job", "of the component"])
def test_a_job_whose_log_folder_is_removed_while_it_runs_succeeds(
    on_sqlite: Cluster, removed: str, tmp_path: Path
) -> None:
    guest = on_sqlite.guest
    with on_sqlite.held(HOST):           # the guest's worker has begun and waits for the host's
        job_id = on_sqlite.submit(toy())
        logs = guest.home / "logs" / job_id
        info = logs / "guest" / GUEST / "toy_0" / "INFO.log"
        eventually(lambda: _says(info, "component parameters on party"), "the component's own log")
        (logs / removed).rename(tmp_path / "removed")      # at once: the server writes there too meanwhile
    on_sqlite.wait(job_id, "success")
    assert _says(info, "finish toy_0")
    assert not _says(info, "component parameters on party")


def test_a_log_of_a_component_that_has_grown_while_it_runs_is_rotated(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    with on_sqlite.held(HOST):
        job_id = on_sqlite.submit(toy())
        info = guest.home / "logs" / job_id / "guest" / GUEST / "toy_0" / "INFO.log"
        eventually(lambda: _says(info, "component parameters on party"), "the component's own log")
        os.truncate(info, 64 << 20)        # log.file_max_bytes; there is nothing in it, and it takes no space
        eventually(lambda: list(info.parent.glob("INFO.log.*")) != [], "the rotated log")
    on_sqlite.wait(job_id, "success")
    assert _says(info, "finish toy_0")


def _says(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text(encoding="utf-8")
