"""How many cores and GPUs the jobs of another party may hold here at once, and how a job waits that would hold more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.access.limits import Grants, PartyLimits
from fate_flow.core.model.errors import NO_CAPACITY
from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.services.participant import reserving
from fate_flow.services.use_cases.grants import GrantFiles
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import HOLD, JOIN, command, create
from tests.kit.values import JOB_ID

OTHER, THIRD = "2026010112000000000077", "2026010112000000000088"
LIMIT = "at most {} (quotas.{}.cores_share, which only an operator of party 10000 can change)"


def a_host(share: float = 0.5, cores: int = 8, **parties: PartyQuota) -> HandServer:
    host = HandServer("10000", cores=cores)
    host.steady = 100_000
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(cores_share=share), parties))
    return host


def asking(cores: int, job_id: str = JOB_ID, initiator: str = "9999") -> list[Command]:
    """The commands of a guest until its job has asked for cores."""
    document = job({"guest": [initiator], "host": ["10000"]}, {"a": []}, cores=cores)
    return [replace(one, job_id=job_id) for one in (create(document=document), *HOLD[1:])]


def asked(host: HandServer, commands: list[Command], initiator: str = "9999") -> Answer:
    *before, last = commands
    for one in before:
        assert host.handle(one, initiator).is_ok, one
    return host.handle(last, initiator)


def test_a_job_that_asks_for_more_than_all_of_its_party_may_hold_is_refused() -> None:
    host = a_host()
    [create_, *_] = asking(5)
    text = "the job asks for 5 cores of party 10000, and all jobs of party 9999 together may hold a share of "
    refusal = Answer(429, text + LIMIT.format(0.5, "default"))
    assert host.handle(create_) == refusal
    assert host.job_or_none() is None
    previewed = Harness(host).use_cases.commands.preview(create_, "9999")
    assert (previewed.retcode, previewed.retmsg) == (429, refusal.retmsg)


def test_a_party_may_fill_its_share_and_its_next_job_waits() -> None:
    host = a_host()
    answer = asked(host, asking(3))
    assert (answer.is_ok, answer.data["remaining_cores"]) == (True, 1), "its queue plans with what it may hold"
    answer = asked(host, asking(2, OTHER))
    why = "has 1 core left for party 9999, 2 asked: its jobs may hold a share of " + LIMIT.format(0.5, "default")
    assert (answer.retcode, answer.data) == (NO_CAPACITY, {"why": why, "free_cores": 1, "quota": "cores_share"})
    assert host.job(job_id=OTHER).pending.since > 0, "it is told when it may"
    assert host.handle(command(K.RETURN, turn=1)).data == {"remaining_cores": 4}
    assert host.handle(replace(command(K.APPLY, turn=1), job_id=OTHER)).is_ok


def test_nothing_is_kept_for_a_job_beyond_the_share_of_its_party() -> None:
    host = a_host()
    assert asked(host, asking(4)).is_ok
    assert asked(host, asking(4, OTHER)).retcode == NO_CAPACITY
    for number in range(2 * host.context.rules.queue_passes):
        commands = asking(4, f"20260101120000000{number:05}", "10001")
        assert asked(host, commands, "10001").is_ok
        assert host.handle(replace(command(K.RETURN, turn=1), job_id=commands[0].job_id), "10001").is_ok
    assert host.job(job_id=OTHER).pending.passes == 0


def test_the_share_of_a_party_counts_and_its_grants_come_first() -> None:
    quota = PartyQuota(cores_share=0.25)
    host = a_host(1.0, **{"9999": quota})
    assert LIMIT.format(0.25, "parties.9999") in asked(host, asking(3)[:1]).retmsg
    GrantFiles(host.context).apply({"9999": Grants(frozenset(), {}, PartyLimits(cores=3))}, "ada")
    assert asked(host, asking(3)).is_ok


def test_a_share_that_was_lowered_since_makes_nobody_wait_behind_the_job() -> None:
    host = a_host()
    *before, apply = asking(4)
    for one in before:
        assert host.handle(one).is_ok
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(cores_share=0.25)))
    answer = host.handle(apply)
    assert (answer.retcode, answer.data["never"], host.job().pending.since) == (NO_CAPACITY, True, 0)


def test_the_own_jobs_have_no_share() -> None:
    host, own = a_host(0.25), Party("guest", "10000")
    document = job({"guest": ["10000"]}, {"a": []}, cores=8)
    assert Harness(host).use_cases.commands.preview(create(own, document), "10000").is_ok


@pytest.mark.parametrize(("cores", "most"), [(1, 1), (2, 2), (8, 8), (10, 9), (20, 18)])
def test_the_share_without_configuration(cores: int, most: int) -> None:
    host = HandServer("10000", cores=cores)
    object.__setattr__(host.context, "quotas", Quotas("10000"))
    assert asked(host, asking(most)).is_ok
    assert not host.handle(asking(most + 1, OTHER)[0]).is_ok
    assert host.handle(replace(JOIN[0], job_id=THIRD)).is_ok == (most >= 2)


# ---------------------------------------------------------------------- GPUs


def with_gpus(share: float = 1.0, **limits: int | None) -> HandServer:
    """A host with four GPUs, and what its quota and the grants of party 9999 say about them."""
    host = HandServer("10000", devices={"local": ("0", "1", "2", "3")})
    host.steady = 100_000
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(cores_share=1.0, gpus_share=share)))
    if limits:
        GrantFiles(host.context).apply({"9999": Grants(frozenset(), {}, PartyLimits(**limits))}, "ada")
    return host


def asking_gpus(gpus: int, job_id: str = JOB_ID) -> list[Command]:
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, cores=1, gpus=gpus)
    return [replace(one, job_id=job_id) for one in (create(document=document), *HOLD[1:])]


def test_a_party_may_fill_its_share_of_the_gpus_and_its_next_job_waits() -> None:
    host = with_gpus(0.5)
    text = "the job asks for 3 GPUs of party 10000, and all jobs of party 9999 together may hold a share of at most 0.5"
    assert host.handle(asking_gpus(3)[0]).retmsg.startswith(f"{text} (quotas.default.gpus_share, ")
    assert asked(host, asking_gpus(2)).is_ok
    answer = asked(host, asking_gpus(1, OTHER))
    assert answer.data["why"].startswith("has 0 GPUs left for party 9999, 1 asked: its jobs may hold a share of at mo")
    assert (answer.data["quota"], host.job(job_id=OTHER).pending.since > 0) == ("gpus_share", True)
    assert asked(host, asking_gpus(0, THIRD)).is_ok, "a job without GPUs is not concerned"
    assert host.handle(command(K.RETURN, turn=1)).is_ok
    assert host.handle(replace(command(K.APPLY, turn=1), job_id=OTHER)).is_ok


def test_a_party_may_hold_as_many_gpus_as_it_was_granted() -> None:
    host = with_gpus(gpus=2)
    refused = "host 10000 has not granted party 9999: 3 GPUs at once (flow privilege grant, there)"
    assert host.handle(asking_gpus(3)[0]).retmsg == refused
    assert asked(host, asking_gpus(2)).is_ok
    answer = asked(host, asking_gpus(1, OTHER))
    assert answer.data == {"why": "has granted party 9999 no more GPUs at once", "free_cores": 7}
    other = [replace(one, job_id=THIRD) for one in asking_gpus(2)]
    document = job({"guest": ["10001"], "host": ["10000"]}, {"a": []}, cores=1, gpus=2)
    other[0] = replace(create(document=document), job_id=THIRD)
    assert asked(host, other, "10001").is_ok, "other parties are not concerned"


def test_gpus_that_another_process_has_reserved_meanwhile_count() -> None:
    host = with_gpus(gpus=2)
    *before, apply = asking_gpus(2)
    for one in before:
        assert host.handle(one).is_ok
    held = iter((0, 4))
    with host.unit() as unit:
        unit.tx.gpus_of_jobs_by = lambda _: next(held)      # type: ignore[method-assign, assignment, attr-defined]
        answer = reserving.apply(unit, apply, host.job())
    assert (answer.retcode, host.job().holds, host.free_cores()) == (NO_CAPACITY, False, 8)
