"""What the genuine host answered and reported, as it was recorded, leads the same jobs of ours to the same end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from tests.fate_1_11_2.our_guest import GUEST, OurGuest, readers
from tests.fate_1_11_2.peer import Envelope, FatePeer
from tests.fate_1_11_2.traffic import Exchange, recorded
from tests.kit.services.sights import STOPPED

MAY_BE_MISSING = ("collect", "model", "clean", "align")
"""How often the first is asked, time decides; the others were not sent yet when the traffic was recorded."""


class RecordedHost(FatePeer):
    """Says what was recorded as soon as it was asked all that it had been asked before, in that order."""

    def __init__(self, name: str) -> None:
        super().__init__("10000")
        self._left = [one for one in recorded(name) if not one.path.startswith("/tracker")]
        self.job_id = self._left[0].command.job_id
        self._collected: Mapping[str, Any] = {}

    def answer(self, path: str, body: Mapping[str, Any]) -> Envelope:
        asked = Exchange(False, path, {}, body, {})
        if asked.verb != self.next_verb:
            assert asked.verb.endswith(MAY_BE_MISSING), f"asked {asked.verb}, not {self.next_verb or 'no more'}"
            return {"retcode": 103 if asked.verb.endswith("collect") else 0, "retmsg": ""}
        found = self._left.pop(0)
        self._speak()
        return dict(found.answer)

    def _speak(self) -> None:
        while self._left and (self._left[0].is_from_fate or self._left[0].verb.endswith("collect")):
            one = self._left.pop(0)
            if one.is_from_fate:
                self.said.append((one.path, dict(one.body)))

    @property
    def next_verb(self) -> str:
        """What it was asked next; empty when that was all."""
        return self._left[0].verb if self._left else ""


def end_our_workers(world: OurGuest, status: Callable[[TaskKey], None]) -> None:
    with world.ours.hand.store.reading() as tx:
        tasks = [task for task in tx.tasks(world.job_id) if task.runs_here and task.worker_id]
    for task in tasks:
        if not task.is_over_here:
            status(task.key)
    world.pump()


def play(name: str, users: Mapping[str, Callable[[OurGuest], None]]) -> OurGuest:
    """`users`: what a user does here once it is the reservation round of this request to the host."""
    host = RecordedHost(name)
    world = OurGuest(host, host.job_id)
    world.submit(readers(len(recorded(name)[0].body["dsl"]["components"])))
    for _ in range(40):
        if not host.next_verb:
            return world
        if host.next_verb in users:
            users[host.next_verb](world)
            world.pump()
        else:
            world.after(2)
            end_our_workers(world, world.ours.succeeds)
    pytest.fail(f"the host was never asked {host.next_verb}")


def stop(world: OurGuest) -> None:
    world.use_cases.jobs.stop(world.job_id)
    world.pump()
    end_our_workers(world, lambda key: world.ours.sees(key, STOPPED))


def test_whoever_asks_in_another_order_is_told() -> None:
    create, waiting, check, *_ = recorded("genuine-host-reader")
    host = RecordedHost("genuine-host-reader")
    assert host.answer(create.path, create.body)["retcode"] == 0
    with pytest.raises(AssertionError, match=f"asked {check.verb}, not {waiting.verb}"):
        host.answer(check.path, check.body)


def test_a_job_of_one_task() -> None:
    world = play("genuine-host-reader", {})
    assert (world.job.status, world.job.reason) == (JobStatus.SUCCESS, Reason.DONE)


def test_a_stop_and_two_reruns() -> None:
    world = play("genuine-host-rerun", {
        "stop/canceled": stop,
        "reader_0 1 create": lambda world: world.use_cases.jobs.rerun(world.job_id, {}),
        "reader_1 2 create": lambda world: world.use_cases.jobs.rerun(world.job_id, {"component_name": "reader_1"}),
    })  # fmt: skip
    assert (world.job.status, world.job.run) == (JobStatus.SUCCESS, 2)
    assert world.ours.task(TaskKey(world.job_id, "reader_1", 2, GUEST)).status is TaskStatus.SUCCESS


def test_a_stop_by_the_client_of_the_host() -> None:
    world = play("genuine-host-stopped-by-its-client", {
        "reader_1 0 status/canceled": lambda world: end_our_workers(world, lambda key: world.ours.sees(key, STOPPED)),
    })  # fmt: skip
    assert (world.job.status, world.job.reason) == (JobStatus.CANCELED, Reason.STOPPED_BY_USER)
    assert world.job.caused_by == "host 10000"
