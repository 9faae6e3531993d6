"""What another party hears when its job is not taken: which of its own words does not fit, and nothing else of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.jobspec.ceilings import Ceilings
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import create
from tests.kit.values import GUEST, HOST

ROLES = {"guest": ["9999"], "host": ["10000"]}
KEYS = "job_runtime_conf.job_parameters.common.task_{}, job_runtime_conf.job_parameters.common.task_parallelism"


def asking(initiator: str, **common: Any) -> Any:
    document = job(ROLES, initiator=initiator)
    seat = {"9999": GUEST, "10000": HOST}[initiator]
    conf = {
        **document.runtime_conf, "initiator": {"role": seat.role, "party_id": seat.party_id},
        "job_parameters": {"common": common},
    }  # fmt: skip
    return replace(document, runtime_conf=conf)


def described(server: HandServer, document: Any, caller: str) -> str:
    """The same by `create` and by `validate`."""
    message = create(document=document)
    previewed = Harness(server).use_cases.commands.preview(message, caller)
    answer = server.handle(message, caller)
    assert (previewed.retcode, previewed.retmsg) == (answer.retcode, answer.retmsg)
    assert not answer.is_ok
    return answer.retmsg


@pytest.mark.parametrize(("caller", "cores", "memory"), [
    ("9999", "more than a job may have at host 10000", "more than host 10000 has"),
    ("10000", "a job may have at most 7 at host 10000", "host 10000 has 5 in all"),
])  # fmt: skip
def test_how_large_this_party_is_is_for_its_own_people(caller: str, cores: str, memory: str) -> None:
    server = HandServer("10000", cores=7, memory=5)
    message = described(server, asking(caller, task_cores=8), caller)
    assert message == f"the job asks for 8 cores, {cores} ({KEYS.format('cores')})"
    message = described(server, asking(caller, task_memory=6), caller)
    assert message == f"the job asks for 6 MB of memory, {memory} ({KEYS.format('memory')})"


def test_a_party_may_want_no_job_that_waits_for_lost_parties() -> None:
    waiting = asking("9999", retry={"max_attempts": 2, "on_events": ["error", "party_lost"]})
    server = HandServer("10000", ceilings=Ceilings(party_lost_retry=False))
    assert described(server, waiting, "9999") == (
        "job_runtime_conf.job_parameters.common.retry.on_events: party_lost is refused by host 10000 "
        "(ceilings.party_lost_retry)"
    )
    assert server.handle(create(document=asking("9999", retry={"on_events": ["error"]}))).is_ok
    assert HandServer("10000").handle(create(document=waiting)).is_ok
