"""Whatever begins something new is refused while the disk is nearly full; whatever ends something goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.errors import NoSpace
from fate_flow.core.model.job import Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.quotas.disk_space import DiskSpace
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT, ENDED, JOIN, START_A, a_host, command, create
from tests.kit.values import GUEST, JOB_ID, NOW

FULL = DiskSpace(9, 10)
TEXT = (
    "party 10000 takes nothing new now: its disk is nearly full (limits.least_free_disk, which only an operator of "
    "party 10000 can change). Try again later"
)


def full(server: HandServer) -> HandServer:
    object.__setattr__(server.context, "disk", lambda: FULL)
    return server


def test_a_new_job_is_refused_and_leaves_nothing() -> None:
    host = full(HandServer("10000"))
    answer = host.handle(create())
    assert (answer.retcode, answer.retmsg) == (507, TEXT)
    assert host.job_or_none() is None
    preview = Harness(host).use_cases.commands.preview(create(), "9999")
    assert (preview.retcode, preview.retmsg) == (507, TEXT)


def test_a_party_whose_jobs_take_too_much_of_the_disk_is_refused_and_others_are_not() -> None:
    host = HandServer("10000")
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(disk_share=0.5)))
    object.__setattr__(host.context, "disk", lambda: DiskSpace(50, 10, total=100))
    for used, retcode in ((50, 0), (51, 507)):
        object.__setattr__(host.context, "disk_use", lambda used=used: {"9999": used, "10001": 99})
        answer = host.handle(create() if not retcode else replace(create(), job_id="2026010112000000000077"))
        assert answer.retcode == retcode
    assert answer.retmsg == (
        "the jobs of party 9999 take as much of the disk of party 10000 as they may, at most 0.5 ("
        "quotas.default.disk_share, which only an operator of party 10000 can change): submit again when results of "
        "some of them were removed there"
    )


def test_a_job_that_is_here_runs_to_its_end() -> None:
    host = full(a_host(*JOIN))
    rest: tuple[Command, ...] = (
        create(), command(K.CHECK, turn=1), command(K.APPLY, turn=1), command(K.START), START_A,
        command(K.UPDATE, progress=40),
    )  # fmt: skip
    for one in rest:
        assert host.handle(one).is_ok, one
    assert host.task().status is TaskStatus.RUNNING
    assert host.handle(command(K.STOP, argument="canceled", reason="stopped_by_user", message="m")).is_ok


def test_another_partys_rerun_is_refused_and_the_end_of_a_job_is_not() -> None:
    host = full(a_host(*ENDED))
    answer = host.handle(command(K.STATUS, argument="waiting", run=1))
    assert (answer.retcode, answer.retmsg, host.job().run) == (507, TEXT, 0)
    assert host.handle(command(K.STATUS, argument="failed", reason="task_failed")).is_ok


def test_a_client_is_refused_with_sizes_and_nothing_is_kept() -> None:
    harness = Harness(full(HandServer("9999")))
    for ask in (lambda: harness.submit(JOB_ID, DOCUMENT), lambda: harness.examine(DOCUMENT)):
        with pytest.raises(NoSpace, match="9999 takes nothing new: its disk has 9 bytes free, and 10 bytes have"):
            ask()
    assert (harness.submission(), harness.server.job_or_none(GUEST)) == (None, None)


def test_a_rerun_of_a_client_is_refused_too_and_a_stop_is_not() -> None:
    harness = Harness(full(HandServer("9999"))).with_job()
    with harness.server.store.transaction() as tx:
        assert tx.move_job(harness.server.job(GUEST), MoveJob(JobStatus.CANCELED, Reason.STOPPED_BY_USER), NOW)
    for again in (lambda: harness.use_cases.jobs.rerun(JOB_ID, {}), lambda: harness.use_cases.jobs.resume(JOB_ID)):
        with pytest.raises(NoSpace):
            again()
    running = Harness(full(HandServer("9999"))).with_job(JobStatus.RUNNING)
    assert running.use_cases.jobs.stop(JOB_ID)
    assert running.reason() is not None
