"""A runner on another host proves that it sees the home of its server before it claims the worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.engines.local.worker import CLAIMED, NOBODY
from fate_flow.engines.placed import run
from fate_flow.engines.placed.folder import intend
from fate_flow.engines.placed.probe import why_not_the_home
from fate_flow.engines.placed.submitting import Submitter

SERVER = Submitter(NOBODY, "elsewhere")


class Clock:
    def __init__(self) -> None:
        self.at = 0.0
        self.sees: dict[float, Path] = {}

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        for at in [one for one in self.sees if one <= self.at]:
            intend(self.sees.pop(at), "fate-flow-home-w", 0.0, SERVER)


def why(folder: Path, clock: Clock) -> str:
    return why_not_the_home(folder, 30.0, lambda: clock.at, clock.sleep)


def test_a_home_where_the_worker_was_placed_is_the_one_also_if_that_is_seen_late(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    clock = Clock()
    clock.sees = {20.0: folder}
    assert why(folder, clock) == ""
    assert clock.at == 20.0
    assert why(folder, Clock()) == ""
    assert [one.name for one in folder.iterdir()] == ["placed.json"]


@pytest.mark.parametrize("name", ["", "fate-flow-home-other"])
def test_another_home_or_an_old_state_of_it_is_found(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    if name:
        intend(folder, name, 0.0, SERVER)
    said = why(folder, Clock())
    assert said.startswith("this host does not see the home of the server, or an old state of it: ")
    assert f"{folder} has no placed.json" in said
    assert said.endswith("or use an engine that shares none")


def test_a_home_that_is_not_mounted_is_found(tmp_path: Path) -> None:
    said = why(tmp_path / "home" / "jobs" / "w", Clock())
    assert f"is not there; the last part of it that is there is {tmp_path}." in said


def test_a_home_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    intend(folder, "fate-flow-home-w", 0.0, SERVER)

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refused)
    assert "cannot write to the home of the server" in why(folder, Clock())


def test_nothing_is_claimed_where_the_home_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "why_not_the_home", lambda _: "this host does not see it")
    folder = tmp_path / "w"
    folder.mkdir()
    assert run.main([str(folder)]) == run.OTHER_HOME
    assert capsys.readouterr().err == "this host does not see it\n"
    assert not (folder / CLAIMED).exists()
