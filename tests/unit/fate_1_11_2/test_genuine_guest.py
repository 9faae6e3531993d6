"""What the genuine FATE Flow 1.11.2 sent as the initiator of its jobs is sent to a host of ours, in its order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.core.model.status import JobStatus
from tests.fate_1_11_2.our_server import OurServer
from tests.fate_1_11_2.traffic import Exchange, recorded
from tests.kit.services.sights import FAILED, STOPPED


@dataclass
class Replay:
    """Our host hears what was recorded; its workers end as those of the recording did."""

    ours: OurServer = field(default_factory=OurServer)
    reports: list[tuple[str, int, str]] = field(default_factory=list)
    job_id: str = ""

    def play(self, exchanges: list[Exchange]) -> None:
        for one in exchanges:
            if one.is_from_fate:
                self._hear(one)
            else:
                self._work(one)
            self._take_reports()

    def _hear(self, one: Exchange) -> None:
        self.job_id = self.job_id or one.command.job_id if "tracker" not in one.path else self.job_id
        answer = self.ours.hears(one.path, one.body, one.headers)
        assert answer["retcode"] == one.answer["retcode"], (one.verb, answer)

    def _work(self, one: Exchange) -> None:
        """The worker comes so far as the recorded report says; a share that never began has none."""
        key, status = one.command.task_key, one.body["party_status"]
        key = TaskKey(key.job_id, key.name, key.version, key.party)
        if not self.ours.task(key).worker_id:
            return
        match status:
            case "running":
                self.ours.runs(key)
            case "success":
                self.ours.succeeds(key)
            case "failed":
                self.ours.sees(key, FAILED)
            case _:
                self.ours.sees(key, STOPPED)

    def _take_reports(self) -> None:
        for command in self.ours.sends():
            assert command.kind is CommandKind.REPORT, command
            self.reports.append((command.task, command.version, str(command.body["party_status"])))

    @property
    def status(self) -> JobStatus:
        return self.ours.job(self.job_id, "host").status


@pytest.mark.parametrize(
    ("name", "reports"),
    [
        ("genuine-guest-reader", [("reader_0", 0, "running"), ("reader_0", 0, "success")]),
        (
            "genuine-guest-autoretry",
            [
                ("reader_0", 0, "running"), ("reader_0", 0, "failed"), ("reader_0", 1, "running"),
                ("reader_0", 1, "failed"), ("reader_0", 2, "running"), ("reader_0", 2, "success"),
            ],
        ),
        (
            "genuine-guest-stop-and-rerun",
            [
                ("reader_0", 0, "running"), ("reader_0", 0, "success"), ("reader_0", 1, "running"),
                ("reader_0", 1, "success"), ("reader_1", 0, "running"), ("reader_1", 0, "success"),
                ("reader_2", 0, "running"), ("reader_2", 0, "success"),
            ],
        ),
    ],
)  # fmt: skip
def test_its_jobs_come_to_their_end_here(name: str, reports: list[tuple[str, int, str]]) -> None:
    replay = Replay()
    replay.play(recorded(name))
    assert replay.reports == reports
    assert replay.status is JobStatus.SUCCESS
    assert replay.ours.hand.free_cores() == 20
