"""An engine that places runners on other machines: never twice, never unseen, whatever the cluster answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.engines.local.worker import Exit, Stop, claim
from fate_flow.engines.placed.cluster import Listed, Stage, Submission, Taken
from fate_flow.engines.placed.folder import Pending, request_stop
from tests.kit.engines.fake_cluster import PREFIX, RESOURCES, PlacedWorld, submitted

IN_DOUBT = Submission(Taken.IN_DOUBT, "Socket timed out on send/recv operation")


@pytest.fixture
def world(tmp_path: Path) -> PlacedWorld:
    return PlacedWorld(tmp_path)


# never twice


def test_a_worker_is_submitted_once_however_often_it_is_launched(world: PlacedWorld) -> None:
    for _ in range(3):
        world.place()
        world.look()
    world.engine = world.new_engine()
    world.place()
    world.look()
    assert submitted(world.cluster) == [PREFIX + "w"]


@pytest.mark.parametrize("takes", [True, False])
def test_in_doubt_nothing_is_submitted_again(world: PlacedWorld, takes: bool) -> None:
    world.cluster.answer, world.cluster.takes = IN_DOUBT, takes
    folder = world.place()
    world.looks(3)
    assert submitted(world.cluster) == [PREFIX + "w"]
    assert world.end_of(folder) is None


def test_an_answer_that_was_lost_is_found_by_the_name(world: PlacedWorld) -> None:
    world.cluster.answer = IN_DOUBT
    folder = world.place()
    world.looks(2)
    world.begin(folder)
    world.looks(20)
    assert world.engine.observe(folder).state == "running"


def test_a_worker_whose_submission_was_lost_ends_and_never_starts(world: PlacedWorld) -> None:
    world.cluster.answer, world.cluster.takes = IN_DOUBT, False
    folder = world.place()
    world.looks(9)
    end = world.end_of(folder)
    assert end is not None
    assert end.cause == "not_started"
    assert "no process started, and Slurm does not list it" in end.message
    assert not claim(folder), "a script that comes an hour late finds the claim"


def test_what_was_placed_before_a_crash_of_the_server_is_in_doubt(world: PlacedWorld) -> None:
    folder = world.place()         # its thread never ran
    world.engine = world.new_engine()
    world.place()
    world.engine.observe(folder)
    world.looks(2)
    assert submitted(world.cluster) == []
    assert world.end_of(folder) is None
    world.looks(7)
    end = world.end_of(folder)
    assert end is not None
    assert end.cause == "not_started"


def test_a_cluster_that_was_not_reached_is_asked_again(world: PlacedWorld) -> None:
    world.cluster.answer, world.cluster.takes = Submission(Taken.NOT_REACHED, "connect failure"), False
    world.cluster.is_away = True
    folder = world.place()
    world.looks(50, 60)
    assert world.end_of(folder) is None
    noted = Pending.read(folder)
    assert noted is not None
    assert noted.text == "waits for Slurm, which does not answer: connect failure"
    world.cluster.answer, world.cluster.takes, world.cluster.is_away = Submission(Taken.ACCEPTED, "1"), True, False
    world.look()
    world.begin(folder)
    assert len(world.cluster.jobs) == 1


def test_a_refusal_ends_the_worker_with_the_words_of_the_cluster(world: PlacedWorld) -> None:
    world.cluster.answer = Submission(Taken.REFUSED, "Invalid partition name specified")
    folder = world.place()
    world.look()
    end = world.end_of(folder)
    assert end == Exit(None, None, "not_started", "Slurm refused it: Invalid partition name specified")
    assert set(world.ended) == {"w"}


# several at once


def test_the_workers_of_one_start_are_one_submission(world: PlacedWorld) -> None:
    for number in range(2):
        world.place(f"w{number}", batch=3)
        world.look(0)
    assert world.cluster.submitted == [], "they wait for the last one"
    world.place("w2", batch=3)
    world.engine.work(polls=False)
    world.looks(3)
    assert world.cluster.arrays == [[PREFIX + "w0", PREFIX + "w1", PREFIX + "w2"]]
    assert len(world.cluster.submitted) == 3


def test_who_comes_late_or_needs_something_else_is_a_submission_of_its_own(world: PlacedWorld) -> None:
    for number, cores in enumerate((2, 4, 2)):
        world.place(f"w{number}", batch=4, cores=cores)
    world.look(2)
    world.place("w3", batch=4)
    world.look(2)
    world.place("w4")
    world.look()
    assert world.cluster.arrays == [[PREFIX + "w0", PREFIX + "w2"]]
    assert submitted(world.cluster) == [PREFIX + f"w{number}" for number in (0, 2, 1, 3, 4)]


@pytest.mark.parametrize(("most", "arrays"), [(3, [2, 3]), (2, [2, 2]), (1, [])])
def test_what_the_cluster_does_not_take_at_once_is_divided(world: PlacedWorld, most: int, arrays: list[int]) -> None:
    world.cluster.most = most
    for number in range(5):
        world.place(f"w{number}", batch=5)
    world.look()
    assert [len(one) for one in world.cluster.arrays] == arrays
    assert sorted(submitted(world.cluster)) == [PREFIX + f"w{number}" for number in range(5)]


@pytest.mark.parametrize("answer", [IN_DOUBT, Submission(Taken.REFUSED, "Invalid partition name specified")])
def test_the_answer_to_several_is_that_to_each_of_them(world: PlacedWorld, answer: Submission) -> None:
    world.cluster.answer, world.cluster.takes = answer, False
    folders = [world.place(f"w{number}", batch=2) for number in range(2)]
    world.looks(9)
    assert {world.cause_of(folder) for folder in folders} == {"not_started"}
    assert len(world.cluster.submitted) == 2


def test_several_that_did_not_reach_the_cluster_are_submitted_again_without_those_that_were_stopped(
    world: PlacedWorld
) -> None:
    world.cluster.answer, world.cluster.takes = Submission(Taken.NOT_REACHED, "connect failure"), False
    folders = [world.place(f"w{number}", batch=3) for number in range(3)]
    world.look()
    assert world.engine.stop(folders[1], 5)
    world.cluster.answer, world.cluster.takes = Submission(Taken.ACCEPTED, "1"), True
    world.looks(3)
    assert world.cluster.arrays == [[PREFIX + f"w{number}" for number in (0, 1, 2)], [PREFIX + "w0", PREFIX + "w2"]]


def test_one_folder_that_cannot_be_read_does_not_keep_the_others_of_its_start(
    world: PlacedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [world.place(f"w{number}", batch=3) for number in range(3)]
    exists = Path.exists

    def fails(path: Path) -> bool:
        if path.parent == folders[1]:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", fails)
        world.engine.work(polls=False)
    assert submitted(world.cluster) == [PREFIX + "w0", PREFIX + "w2"]
    world.look()
    assert submitted(world.cluster) == [PREFIX + f"w{number}" for number in (0, 2, 1)]


# waiting


def test_a_worker_that_waits_says_why_and_for_how_long(world: PlacedWorld) -> None:
    folder = world.place()
    world.looks(9)
    seen = world.engine.observe(folder)
    assert (seen.state, seen.is_placed) == ("created", True)
    assert Pending.read(folder) == Pending("resources", RESOURCES.text, RESOURCES.advice, 40)


@pytest.mark.parametrize(("taken", "kind", "advice"), [
    (Taken.NOT_REACHED, "unreachable", "if this lasts, look whether it runs and is reached"),
    (Taken.IN_DOUBT, "doubt", "the next listings tell, without a step of anybody"),
])  # fmt: skip
def test_a_submission_without_an_answer_says_what_to_do(
    world: PlacedWorld, taken: Taken, kind: str, advice: str
) -> None:
    world.cluster.answer, world.cluster.takes = Submission(taken, "connect failure"), False
    folder = world.place()
    world.engine.work(polls=False)
    found = Pending.read(folder)
    assert found is not None
    assert (found.kind, found.advice) == (kind, advice)


def test_it_is_given_up_when_it_has_waited_for_too_long(world: PlacedWorld) -> None:
    folder = world.place()
    world.looks(12, 60)
    end = world.end_of(folder)
    assert end is not None
    assert end.cause == "not_placed"
    assert end.message == "waits in Slurm for 2 nodes: Resources; given up after 660 s"
    world.looks(2)
    assert PREFIX + "w" in world.cluster.cancelled
    assert not claim(folder)


@pytest.mark.parametrize(("asked", "minutes"), [(120, 3), (3600, 11)])
def test_a_job_may_lower_the_limit_and_not_raise_it(world: PlacedWorld, asked: float, minutes: int) -> None:
    folder = world.place(longest_pending=asked)
    world.looks(minutes, 60)
    assert world.end_of(folder) is None
    world.look(60)
    assert world.end_of(folder) is not None


def test_the_clock_stands_while_the_cluster_cannot_be_read(world: PlacedWorld) -> None:
    folder = world.place()
    world.looks(3)
    world.cluster.is_away = True
    world.looks(60, 60)
    world.cluster.is_away = False
    world.looks(2)
    assert world.end_of(folder) is None
    noted = Pending.read(folder)
    assert noted is not None
    assert noted.seconds == 15


def test_the_clock_goes_on_after_a_restart_of_the_server(world: PlacedWorld) -> None:
    folder = world.place()
    world.looks(10, 60)
    world.engine = world.new_engine()
    world.now = 5.0                  # another machine, or another boot
    world.engine.observe(folder)
    world.looks(3, 60)
    end = world.end_of(folder)
    assert end is not None
    assert end.cause == "not_placed"


def test_a_runner_that_was_faster_than_the_limit_goes_on(world: PlacedWorld) -> None:
    folder = world.place()
    world.looks(10, 60)
    claim(folder)                    # of the runner, whose start the listing does not show yet
    world.looks(3, 60)
    assert world.end_of(folder) is None


# gone


def test_one_listing_without_a_worker_decides_nothing(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.look()
    world.forget(folder)
    world.look(1000)
    world.show(folder, Stage.ALIVE)
    world.look(1000)
    assert world.engine.observe(folder).state == "running"


def test_a_word_that_we_do_not_know_decides_nothing(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.show(folder, Stage.UNKNOWN)
    world.looks(100, 100)
    assert world.end_of(folder) is None


@pytest.mark.parametrize("cause", ["timeout", "out_of_memory", "preempted"])
def test_an_end_without_a_file_has_the_reason_of_the_cluster(world: PlacedWorld, cause: str) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.look()
    world.show(folder, Stage.ENDED, cause)
    world.looks(3)
    assert world.end_of(folder) is None, "what the node has written may not be seen yet"
    world.forget(folder)             # as Slurm does some minutes later
    world.looks(5)
    end = world.end_of(folder)
    assert end == Exit(None, None, cause, f"Slurm says {cause.upper()}")      # type: ignore[arg-type]


def test_a_lost_node_may_still_compute_so_its_worker_is_asked_to_end_first(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.show(folder, Stage.ENDED, "node_lost")
    world.looks(2)
    assert Stop.read(folder) == Stop(0.0)
    world.looks(18)
    assert world.end_of(folder) is None, "the runner has not been silent for long enough"
    world.looks(3)
    end = world.end_of(folder)
    assert end is not None
    assert end.cause == "node_lost"


def test_the_time_before_a_worker_came_into_the_listing_does_not_count_when_its_node_is_lost(
    world: PlacedWorld
) -> None:
    world.cluster.answer, world.cluster.takes = IN_DOUBT, False
    folder = world.place()
    world.look()
    world.begin(folder)
    world.show(folder, Stage.ENDED, "node_lost")
    world.look(300)
    world.look()
    assert world.end_of(folder) is None, "its runner may still compute"
    world.looks(19)
    assert world.cause_of(folder) == "node_lost"


def test_the_end_of_a_runner_that_heard_that_its_node_was_lost_says_so(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.show(folder, Stage.ENDED, "node_lost")
    world.looks(2)
    world.end(folder, Exit(None, 15, "stopped"))
    end = world.end_of(folder)
    assert end is not None
    assert (end.cause, end.message) == ("node_lost", "Slurm had lost it")


@pytest.mark.parametrize(("end", "cause"), [
    (Exit(5, None, "stopped"), "timeout"), (Exit(None, 15, "stopped"), "timeout"),
    (Exit(0, None, "stopped"), "stopped"),
])  # fmt: skip
def test_a_worker_that_ends_in_its_grace_before_the_limit_of_the_cluster_was_out_of_time(
    world: PlacedWorld, end: Exit, cause: str
) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    request_stop(folder, 10, "timeout")      # as its job does when the cluster warns it
    world.end(folder, end)
    assert world.cause_of(folder) == cause


def test_the_folder_is_believed_before_the_listing(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.show(folder, Stage.ENDED, "node_lost")
    world.end(folder, Exit(0, None, "exited"))
    world.looks(30)
    assert world.end_of(folder) == Exit(0, None, "exited")


@pytest.mark.parametrize("end", [Exit(None, 15, "stopped"), Exit(None, 15, "exited"), Exit(5, None, "exited")])
def test_the_cluster_explains_an_end_that_nobody_here_has_asked_for(world: PlacedWorld, end: Exit) -> None:
    world.cluster.noted = ("timeout", "Slurm: its time is over")
    folder = world.place()
    world.look()
    world.begin(folder)
    world.end(folder, end)
    found = world.end_of(folder)
    assert found is not None
    assert (found.cause, found.message) == ("timeout", "Slurm: its time is over")


def test_an_end_that_was_asked_for_is_not_explained_by_the_cluster(world: PlacedWorld) -> None:
    world.cluster.noted = ("timeout", "Slurm: its time is over")
    folder = world.place()
    world.look()
    world.begin(folder)
    world.engine.stop(folder, 5)
    world.end(folder, Exit(None, 15, "stopped"))
    assert world.end_of(folder) == Exit(None, 15, "stopped")


# stopping


def test_a_worker_that_has_not_started_is_stopped_by_the_claim_and_cancelled(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    assert world.engine.stop(folder, 10)
    assert world.end_of(folder) == Exit(None, None, "stopped")
    assert not claim(folder)
    world.place("other")
    world.looks(2)
    assert world.cluster.cancelled == [PREFIX + "w"]


def test_a_running_worker_is_signalled_once_and_cancelled_when_its_grace_has_passed(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    for _ in range(4):
        assert not world.engine.stop(folder, 10)
        world.look()
    assert world.cluster.signals == [PREFIX + "w"]
    assert world.cluster.cancelled == []
    world.look()
    assert world.cluster.cancelled == [PREFIX + "w"]


def test_the_request_to_stop_has_no_time_of_this_machine(world: PlacedWorld) -> None:
    folder = world.place()
    world.begin(folder)
    world.engine.stop(folder, 10)
    world.engine.stop(folder, 3)
    world.engine.stop(folder, 7)
    assert Stop.read(folder) == Stop(3.0, 0.0)


# foreign jobs


def test_jobs_of_others_are_left_alone(world: PlacedWorld) -> None:
    world.place()
    show = world.cluster.show
    show("train", world.jobs / "job" / "train", Stage.ALIVE)
    show("fate-flow-other-x", world.jobs / "job" / "x", Stage.ALIVE)
    show(PREFIX + "y", Path("/elsewhere/jobs/y"), Stage.ALIVE)
    show(PREFIX + "z", world.jobs / "job" / "not z", Stage.ALIVE)
    show(PREFIX + "u", world.jobs / ".." / "jobs" / "u", Stage.ALIVE)
    world.looks(5)
    assert world.cluster.cancelled == []


def test_an_old_job_of_ours_whose_folder_is_gone_is_cancelled(world: PlacedWorld) -> None:
    world.place()
    world.cluster.show(PREFIX + "old", world.jobs / "job" / "old", Stage.PENDING)
    world.look()
    assert world.cluster.cancelled == [], "a job ends a moment after its worker"
    world.look()
    assert world.cluster.cancelled == [PREFIX + "old"]


def test_a_second_job_of_one_name_does_not_hide_the_first(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.cluster.twins = [Listed(PREFIX + "w", str(folder), Stage.ENDED)]
    world.looks(50)
    assert world.engine.observe(folder).state == "running"


def test_a_second_job_of_one_name_that_found_the_claim_does_not_end_one_on_a_lost_node(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.cluster.twins = [Listed(PREFIX + "w", str(folder), Stage.ENDED)]
    world.look()
    world.show(folder, Stage.ENDED, "node_lost")
    world.looks(2)
    world.forget(folder)
    world.looks(15)
    assert world.end_of(folder) is None, "its runner may still compute"
    world.looks(6)
    assert world.cause_of(folder) == "node_lost"


def test_a_second_job_that_waits_does_not_hide_that_the_node_of_the_first_was_lost(world: PlacedWorld) -> None:
    folder = world.place()
    world.look()
    world.begin(folder)
    world.cluster.twins = [Listed(PREFIX + "w", str(folder), Stage.PENDING)]
    world.show(folder, Stage.ENDED, "node_lost")
    world.looks(2)
    world.forget(folder)
    world.look()
    world.cluster.twins = [Listed(PREFIX + "w", str(folder), Stage.ENDED)]       # it has found the claim
    world.looks(20)
    assert world.end_of(folder) is None, "its runner may still compute"
    world.looks(2)
    assert world.cause_of(folder) == "lost"


def test_one_line_says_that_the_cluster_is_away_for_as_long_as_it_is(
    world: PlacedWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.place()
    for _ in range(2):
        world.cluster.is_away = True
        world.looks(3)
        world.cluster.is_away = False
        world.looks(3)
    assert [one.getMessage() for one in caplog.records if "cannot be listed" in one.getMessage()] == [
        "Slurm cannot be listed: Unable to contact slurm controller (connect failure)"
    ] * 2
