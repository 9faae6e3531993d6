"""How many unfinished jobs another party may have here: at its creates, its reruns, and the questions before them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.store.memory.resources import Resources
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import ENDED, HOLD, a_host, command, create
from tests.kit.values import GUEST, JOB_ID

OTHER = "2026010112000000000077"
FAILED = command(K.STATUS, argument="failed", reason="task_failed")
REFUSAL = (
    "party 9999 has 1 unfinished job at party 10000, and may have at most 1 (quotas.default.unfinished_jobs, which "
    "only an operator of party 10000 can change): submit again when some of them have ended"
)


def with_quota(host: HandServer, most: int = 1, **parties: PartyQuota) -> HandServer:
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(most), parties))
    return host


def other(one: Command) -> Command:
    return replace(one, job_id=OTHER)


def test_one_job_too_many_is_refused_and_leaves_nothing() -> None:
    host = with_quota(a_host(*HOLD))
    assert host.handle(other(create())) == Answer(429, REFUSAL)
    assert host.job_or_none(job_id=OTHER) is None
    assert host.job(job_id=JOB_ID).holds, "the job that is here goes on"


def test_who_asks_before_a_submit_is_answered_the_same() -> None:
    answer = Harness(with_quota(a_host(*HOLD))).use_cases.commands.preview(other(create()), "9999")
    assert (answer.retcode, answer.retmsg) == (429, REFUSAL)


def test_a_job_that_has_ended_counts_no_more() -> None:
    host = with_quota(a_host(*HOLD, FAILED))
    assert host.handle(other(create())).is_ok


def test_a_repeated_create_is_answered_as_the_first() -> None:
    host = with_quota(HandServer("10000"))
    assert host.handle(create()) == host.handle(create())


def test_the_jobs_of_other_parties_do_not_count() -> None:
    document = job({"guest": ["10001"], "host": ["10000"]}, {"a": []})
    host = with_quota(a_host(*HOLD))
    assert host.handle(other(create(document=document, incarnations={})), "10001").is_ok


def test_a_party_that_is_named_has_its_own_quota() -> None:
    host = with_quota(a_host(*HOLD), **{"9999": PartyQuota(2)})
    assert host.handle(other(create())).is_ok


def test_a_rerun_needs_a_place_among_the_unfinished_jobs_too() -> None:
    host = with_quota(a_host(*ENDED))
    assert host.handle(other(create())).is_ok
    again = command(K.STATUS, argument="waiting", run=1)
    answer = host.handle(again)
    assert (answer.retcode, "may have at most 1" in answer.retmsg, host.job().run) == (429, True, 0)
    assert host.handle(other(FAILED)).is_ok
    assert host.handle(again).retcode != 429


def test_who_adds_a_job_lets_no_other_process_add_one_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[str] = []
    monkeypatch.setattr(Resources, "lock_jobs_by", lambda _, party_id: locked.append(party_id))
    host = with_quota(a_host(*ENDED), 2)
    assert locked == ["9999"]
    assert Harness(host).use_cases.commands.preview(other(create()), "9999").is_ok
    assert locked == ["9999"], "a question adds none, and cannot write"
    assert host.handle(command(K.STATUS, argument="waiting", run=1)).retcode != 429
    assert locked == ["9999"] * 2


def test_this_partys_own_jobs_have_no_quota() -> None:
    own = with_quota(HandServer("9999"), 1)
    for one in (create(GUEST), other(create(GUEST))):
        assert own.handle(one, "9999").is_ok


@pytest.mark.parametrize("seed", range(5))
def test_whatever_a_party_sends_it_never_has_more_jobs_than_it_may(seed: int) -> None:
    random, host = Random(seed), with_quota(HandServer("10000"), 2)
    ids = [f"20260101120000000000{number}" for number in range(6)]
    counts, refused = set(), 0
    for _ in range(150):
        rerun = command(K.STATUS, argument="waiting", run=random.randint(1, 3))
        one = random.choice((create(), create(), FAILED, rerun))
        refused += host.handle(replace(one, job_id=random.choice(ids))).retcode == 429
        with host.store.reading() as tx:
            counts.add(tx.open_jobs_by("9999"))
    assert max(counts) == 2
    assert refused > 10
