"""Where FATE's data frames lie, and what a worker may report of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt
from fate_flow.components.artifacts.data_frames import DataFrames
from fate_flow.core.model.artifact import DATAFRAME, INDEX
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party

KEY = TaskKey("2026010112000000000001234", "psi", 2, Party("guest", "9999"))


def an_attempt(home: Path, task: str = "psi", worker: str = "w1") -> Attempt:
    folder = home / "jobs" / KEY.job_id / "guest" / "9999" / task / f"{KEY.job_id}_{task}" / "2" / "task_executor"
    return Attempt(TaskKey(KEY.job_id, task, 2, KEY.party), folder / worker)


def made(home: Path, attempt: Attempt, name: str) -> str:
    """A frame with this name in the namespace of the worker."""
    uri = DataFrames().planned(attempt, name).uri
    Path(uri.removeprefix("standalone://")).mkdir(parents=True)
    return uri


def test_workers_of_a_seat_share_the_folder_and_have_namespaces_of_their_own(tmp_path: Path) -> None:
    frames = tmp_path / "jobs" / KEY.job_id / "guest" / "9999" / "frames"
    planned = DataFrames().planned(an_attempt(tmp_path), "output_data")
    assert (planned.kind, planned.uri) == (DATAFRAME, f"standalone://{frames}/psi_2_w1/output_data")
    others = {DataFrames().planned(one, "output_data").uri for one in (
        an_attempt(tmp_path, "psi", "w2"), an_attempt(tmp_path, "scale", "w1"),
    )}  # fmt: skip
    assert len(others) == 2
    assert all(uri.startswith(f"standalone://{frames}/") and uri != planned.uri for uri in others)
    assert DataFrames().planned(an_attempt(tmp_path), f"cv_{INDEX}").uri.endswith("/psi_2_w1/cv_{index}")


def test_a_frame_is_reported_with_its_schema_and_nothing_that_people_look_at(tmp_path: Path) -> None:
    attempt = an_attempt(tmp_path)
    said = {"metadata": {"schema": {"x": 1}}, "data_overview": {"samples": [1]}, "source": {"task_id": "t"}}
    for name in ("output_data", "output_data_0", "output_data_12"):
        uri = made(tmp_path, attempt, name)
        found = DataFrames().reported(attempt, "output_data", {"uri": uri, "metadata": said})
        assert (found.uri, found.key) == (uri, "output_data")
        assert found.metadata == {"metadata": {"schema": {"x": 1}}, "source": {"task_id": "t"}}


def test_a_frame_elsewhere_or_under_another_key_is_refused(tmp_path: Path) -> None:
    attempt, frames = an_attempt(tmp_path), DataFrames()
    uri = made(tmp_path, attempt, "output_data")
    of_another = made(tmp_path, an_attempt(tmp_path, worker="w2"), "output_data")
    link = Path(frames.planned(attempt, "linked").uri.removeprefix("standalone://"))
    link.symlink_to(uri.removeprefix("standalone://"))
    for key, wrong, why in (
        ("output_data", of_another, "is not standalone://"), ("output", uri, "is not standalone://"),
        ("output_data", "file:///etc", "is not standalone://"), ("missing", uri[: -len("output_data")] + "missing",
         "has no data frame"), ("linked", f"standalone://{link}", "has no data frame"),
    ):
        with pytest.raises(ArtifactError, match=why):
            frames.reported(attempt, key, {"uri": wrong, "metadata": {}})
