"""One process of a server submits, and another one lists; and one folder that fails does not stop the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.engines.local.worker import SECOND, Exit, ProcessId, Stop
from fate_flow.engines.placed.cluster import Stage, Submission, Taken
from fate_flow.engines.placed.folder import PLACED, Pending
from fate_flow.engines.placed.submitting import SUBMITTED, ProcessesHere, Submitted, Submitter
from tests.kit.engines.fake_cluster import PREFIX, FakeProcess, PlacedWorld, submitted

IN_DOUBT = Submission(Taken.IN_DOUBT, "Socket timed out on send/recv operation")


@pytest.fixture
def world(tmp_path: Path) -> PlacedWorld:
    return PlacedWorld(tmp_path)


# submitted by another process than lists


@pytest.fixture
def other(world: PlacedWorld) -> FakeProcess:
    return world.processes.start()


def test_what_another_process_has_not_submitted_yet_is_not_lost(world: PlacedWorld, other: FakeProcess) -> None:
    http = world.engine_of(other)
    folder = world.place(by=http)
    world.looks(100)                 # its thread is busy with others: the cluster is slow
    assert world.end_of(folder) is None
    http.work(polls=False)
    world.looks(2)
    world.begin(folder)
    assert world.engine.observe(folder).state == "running"


def test_an_intent_of_a_process_that_has_died_is_lost(world: PlacedWorld, other: FakeProcess) -> None:
    folder = world.place(by=world.engine_of(other))
    world.looks(20)
    world.processes.end(other)
    world.looks(9)
    assert world.cause_of(folder) == "not_started"


def test_a_process_that_nobody_can_look_at_has_some_minutes_to_submit(world: PlacedWorld, other: FakeProcess) -> None:
    folder = world.place(by=world.engine_of(other))
    world.processes.end(other, is_known=False)
    world.looks(9, 60)
    assert world.end_of(folder) is None
    world.cluster.is_away = True     # nobody can submit meanwhile
    world.looks(9, 60)
    world.cluster.is_away = False
    world.look(60)
    assert world.end_of(folder) is None
    world.looks(4, 60)
    assert world.cause_of(folder) == "not_started"


def test_a_process_that_still_tries_to_reach_the_cluster_has_its_minutes_again(
    world: PlacedWorld, other: FakeProcess
) -> None:
    http = world.engine_of(other)
    folder = world.place(by=http)
    world.processes.end(other, is_known=False)
    world.cluster.answer, world.cluster.takes = Submission(Taken.NOT_REACHED, "connect failure"), False
    for _ in range(5):
        http.work(polls=True)
        world.looks(5, 60)
    assert world.end_of(folder) is None
    world.looks(12, 60)
    assert world.cause_of(folder) == "not_started"


@pytest.mark.parametrize("answer", [IN_DOUBT, Submission(Taken.ACCEPTED, "1")])
def test_what_the_cluster_has_answered_to_another_process_and_lost_is_lost(
    world: PlacedWorld, other: FakeProcess, answer: Submission
) -> None:
    http = world.engine_of(other)
    world.cluster.answer, world.cluster.takes = answer, False
    folder = world.place(by=http)
    http.work(polls=False)
    world.looks(9)
    assert world.cause_of(folder) == "not_started"


def test_an_answer_that_could_not_be_written_is_written_later(
    world: PlacedWorld, other: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = world.engine_of(other)
    world.cluster.answer, world.cluster.takes = IN_DOUBT, False
    folder = world.place(by=http)
    with monkeypatch.context() as patch:
        patch.setattr(Submitted, "write", fails)
        http.work(polls=False)
    world.looks(9)
    assert world.end_of(folder) is None
    http.work(polls=False)
    world.looks(9)
    assert world.cause_of(folder) == "not_started"


def test_a_runner_that_has_begun_was_submitted_whatever_the_folder_says(world: PlacedWorld, other: FakeProcess) -> None:
    http = world.engine_of(other)
    folder = world.place(by=http)
    http.work(polls=False)
    (folder / SUBMITTED).unlink()    # the process was killed after sbatch, before it could say so
    world.begin(folder)
    world.forget(folder)
    world.looks(40)
    assert world.cause_of(folder) == "lost"


def test_processes_of_this_machine_are_looked_at() -> None:
    here = ProcessesHere()
    own = here.own()
    assert here.is_alive(own)
    assert here.is_alive(Submitter(ProcessId(own.process.pid, own.process.started + 1), own.machine)) is False
    assert here.is_alive(Submitter(own.process, "another boot")) is None


# one folder that fails


def fails(*_: object) -> None:
    raise PermissionError(13, "Permission denied", "w")


def test_one_folder_that_cannot_be_read_does_not_stop_the_others(
    world: PlacedWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = world.place("bad"), world.place("good")
    world.look()
    right = Exit.read

    def read(folder: Path) -> Exit | None:
        return fails() if folder == bad else right(folder)

    with monkeypatch.context() as patch:
        patch.setattr(Exit, "read", read)
        world.forget(good)
        world.looks(9)
        assert world.cause_of(good) == "not_started"
    assert len([one for one in caplog.records if "cannot be followed" in one.getMessage()]) == 1
    world.looks(9)
    noted = Pending.read(bad)
    assert noted is not None
    assert noted.kind == "resources", "it is followed again"


def test_an_order_whose_folder_cannot_be_read_waits_and_the_others_are_submitted(
    world: PlacedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = world.place("bad"), world.place("good")
    right = Path.exists

    def exists(path: Path) -> bool:
        if path.parent == bad:
            fails()
        return right(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", exists)
        world.looks(3)
        assert submitted(world.cluster) == [PREFIX + good.name]
        assert world.cluster.cancelled == []
    world.look()
    assert submitted(world.cluster) == [PREFIX + good.name, PREFIX + bad.name]


def test_an_intent_that_is_no_json_goes_by_the_name_that_it_must_have(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    (folder / PLACED).write_text("{")
    world.looks(3)
    world.begin(folder)
    world.show(folder, Stage.ENDED, "timeout")
    world.looks(9)
    assert world.cause_of(folder) == "timeout"


def test_the_end_of_a_second_job_is_not_that_of_the_first_which_may_compute(tmp_path: Path) -> None:
    """slurmctld was killed, came back with an old state, and started the job again, on another node."""
    world = PlacedWorld(tmp_path)
    folder = world.place()
    world.look()
    world.begin(folder)
    (folder / SECOND).touch()
    world.show(folder, Stage.ENDED)
    world.looks(2)
    assert Stop.read(folder) == Stop(0.0), "its runner is asked to end, wherever it is"
    world.looks(18)
    assert world.end_of(folder) is None, "its runner has not been silent for long enough"
    world.looks(3)
    assert world.cause_of(folder) == "lost"
