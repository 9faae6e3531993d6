"""A command that is larger than its sender may send, alone and in a batch."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.api.between_parties.quota_log import QuotaLog
from fate_flow.core.model.job import Answer
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.wire.v1.job_answers import no_capacity_data
from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World

JOB = "202601011200000000001"
CONF = {**TOY_CONF, "initiator": {"role": "guest", "party_id": 10000}, "role": {"guest": [10000], "host": [9999]}}
BODY: dict[str, Any] = {"dsl": TOY_DSL, "runtime_conf": CONF, "extensions": {}, "incarnations": {}}
LARGE = {**BODY, "description": "x" * 4000}
MOST = 2000
REFUSED = (
    "and party 10000 may send at most 2000 (quotas.default.document_bytes, which only an operator of party 9999 can "
    "change)"
)


@pytest.fixture(autouse=True)
def quota(world: World) -> None:
    quotas = Quotas("9999", PartyQuota(document_bytes=MOST), {"555": PartyQuota(document_bytes=10_000)})
    object.__setattr__(world.services.context, "quotas", quotas)


def send(world: World, path: str, body: Any, caller: str = "10000") -> dict[str, Any]:
    said = world.ask(path, body, headers={"SRC-PARTY-ID": caller})
    assert isinstance(said, dict)
    return said


def endpoint(role: str = "host") -> str:
    return f"/party/{JOB}/{role}/9999/create"


def test_the_documents_of_these_tests_are_on_both_sides_of_the_quota() -> None:
    assert len(json.dumps(BODY)) < MOST < len(json.dumps(LARGE))


@pytest.mark.parametrize("path", [endpoint()[1:], "party/validate", "party/heartbeat", "party/history", "party/intake"])
def test_a_large_body_is_refused_before_it_is_read(world: World, path: str) -> None:
    said = send(world, path, {"not even": "one of these", **LARGE})
    assert said["retcode"] == 413
    assert said["retmsg"].startswith("the document has ")
    assert said["retmsg"].endswith(REFUSED)


def test_a_party_has_one_quota_however_its_id_is_spelled(world: World) -> None:
    for spelled, retcode in (("555", 101), ("0555", 101), ("010000", 413), ("0000010000", 413)):
        assert send(world, "party/heartbeat", LARGE, spelled)["retcode"] == retcode, spelled


def test_in_a_batch_only_the_large_command_is_refused(world: World) -> None:
    commands = [{"endpoint": endpoint(), "body": one} for one in (LARGE, BODY)]
    large, small = send(world, "party/batch", {"commands": commands})["data"]
    assert (large["retcode"], small["retcode"]) == (413, 0)
    assert world.count("t_job") == 1


def test_a_party_with_a_larger_quota_may_send_more(world: World) -> None:
    assert send(world, endpoint()[1:], LARGE, caller="555")["retcode"] == 108, "it is not the initiator of this job"


def test_the_operator_reads_one_line_however_often_it_happens(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert send(world, endpoint()[1:], LARGE)["retcode"] == 413
        assert send(world, endpoint()[1:], BODY)["retcode"] == 0
    lines = [one for one in caplog.messages if "quota" in one]
    assert len(lines) == 1
    assert lines[0].startswith("a quota refuses party '10000': the document has ")


def test_the_operator_reads_why_a_job_waits_that_would_hold_too_many_cores(caplog: pytest.LogCaptureFixture) -> None:
    log, why = QuotaLog(lambda: 1.0), "has 0 cores left for party 555, 4 asked"
    waiting = Answer(103, "apply failed", no_capacity_data(why, 0, quota="cores_share"))
    with caplog.at_level("WARNING"):
        for answer in (waiting, waiting, replace(waiting, data=no_capacity_data("has 0 of 8 cores free", 0)), Answer()):
            log.note_answer("555", answer)
    assert caplog.messages == [f"a quota refuses party '555': it {why}"]


@pytest.mark.parametrize("path", [endpoint()[1:], "party/batch"])
def test_a_small_body_that_would_take_much_memory_is_refused(world: World, path: str) -> None:
    object.__setattr__(world.services.context, "quotas", Quotas("9999"))
    said = send(world, path, b'{"dsl": [' + b"[]," * 1_000_001 + b"[]]}")
    assert (said["retcode"], said["retmsg"]) == (
        413, "the body has more than 1000000 values: send fewer commands in one request"
    )


def test_text_with_many_commas_is_one_value(world: World) -> None:
    object.__setattr__(world.services.context, "quotas", Quotas("9999"))
    said = send(world, endpoint()[1:], {**BODY, "description": ',[{\\"' * 600_000})
    assert said["retcode"] == 0
