"""The v1 paths between parties (party-api-v1, sections 2 to 4) as commands, and the envelopes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.errors import BadRequest, FlowError, NotFound, NotOffered
from fate_flow.core.model.job import ANY_RUN, Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.envelope import body_of, headers, read_answer
from fate_flow.core.wire.v1.paths import endpoint_of, read_command
from tests.kit.values import HOST, JOB_ID

K = CommandKind
JOB = f"/party/{JOB_ID}/host/10000"
TASK = f"/party/{JOB_ID}/hetero_lr_0/{JOB_ID}_hetero_lr_0/3/host/10000"
INITIATOR = f"/initiator/{JOB_ID}"
REPORT = f"{INITIATOR}/hetero_lr_0/{JOB_ID}_hetero_lr_0/3/host/10000/report"


@pytest.mark.parametrize(
    ("endpoint", "kind", "argument"),
    [
        (f"{JOB}/create", K.CREATE, ""), (f"{JOB}/dependence/check", K.CHECK, ""),
        (f"{JOB}/resource/apply", K.APPLY, ""), (f"{JOB}/resource/return", K.RETURN, ""), (f"{JOB}/start", K.START, ""),
        (f"{JOB}/align", K.ALIGN, ""), (f"{JOB}/update", K.UPDATE, ""), (f"{JOB}/model", K.MODEL, ""),
        (f"{JOB}/clean", K.CLEAN, ""), (f"{JOB}/status/waiting", K.STATUS, "waiting"),
        (f"{JOB}/status/success", K.STATUS, "success"), (f"{JOB}/stop/canceled", K.STOP, "canceled"),
        (f"{JOB}/component/inheritance/check", K.FIND_REUSABLE, ""),
        (f"{JOB}/component/rerun/check", K.FIND_REUSABLE, ""),
    ],
)  # fmt: skip
def test_job_commands(endpoint: str, kind: CommandKind, argument: str) -> None:
    body = {"x": 1}
    assert read_command(endpoint, body) == Command(kind, JOB_ID, HOST, ANY_RUN, argument=argument, body=body)


@pytest.mark.parametrize(
    ("endpoint", "kind", "argument"),
    [
        (f"{TASK}/create", K.TASK_CREATE, ""), (f"{TASK}/start", K.TASK_START, ""),
        (f"{TASK}/collect", K.TASK_COLLECT, ""), (f"{TASK}/update", K.CLEAN, ""),
        (f"{TASK}/status/running", K.TASK_STATUS, "running"), (f"{TASK}/stop/failed", K.TASK_STOP, "failed"),
        (f"{TASK}/clean/metrics", K.CLEAN, "metrics"), (f"{TASK}/clean/table", K.CLEAN, "table"),
    ],
)  # fmt: skip
def test_task_commands(endpoint: str, kind: CommandKind, argument: str) -> None:
    found = read_command(endpoint, {"x": 1})
    assert found == Command(kind, JOB_ID, HOST, ANY_RUN, "hetero_lr_0", 3, argument, {"x": 1})


def test_the_row_of_a_new_version_says_in_its_body_which_one_it_is() -> None:
    """FATE makes the path of it from the row of the old version."""
    assert read_command(f"{TASK}/create", {"task_version": 4}).version == 4
    assert read_command(f"{TASK}/create", {"task_version": None}).version == 3
    assert read_command(f"{TASK}/start", {"task_version": 4}).version == 3
    with pytest.raises(BadRequest, match="task_version"):
        read_command(f"{TASK}/create", {"task_version": "x"})


def test_a_party_asks_the_initiator_to_stop() -> None:
    found = read_command(f"{INITIATOR}/guest/9999/stop/canceled", {})
    assert found == Command(K.ASK_STOP, JOB_ID, Party("guest", "9999"), ANY_RUN, argument="canceled", body={})


def test_a_party_asks_the_initiator_for_a_rerun() -> None:
    body = {"component_name": "hetero_lr_0", "force": True}
    found = read_command(f"{INITIATOR}/guest/9999/rerun", body)
    assert found == Command(K.ASK_RERUN, JOB_ID, Party("guest", "9999"), ANY_RUN, body=body)


def test_a_party_tells_the_initiator_that_it_may_be_ready() -> None:
    found = read_command(f"{INITIATOR}/guest/9999/ready", {"anything": 1})
    assert found == Command(K.LOOK_AGAIN, JOB_ID, Party("guest", "9999"), ANY_RUN)
    assert endpoint_of(found) == f"{INITIATOR}/guest/9999/ready"


def test_the_path_of_a_report_is_stronger_than_its_body() -> None:
    lies = {"job_id": "1", "component_name": "x", "task_version": 9, "role": "guest", "party_id": "1", "status": "s"}
    found = read_command(REPORT, lies)
    assert (found.kind, found.to, found.task, found.version) == (K.REPORT, HOST, "hetero_lr_0", 3)
    assert found.body == {
        "job_id": JOB_ID, "component_name": "hetero_lr_0", "task_version": 3, "role": "host", "party_id": "10000",
        "status": "s",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("endpoint", "party"),
    [
        (f"party/{JOB_ID}/host/10000/start/", HOST), (f"/party/{JOB_ID}/host/0010000/start", HOST),
        (f"/party/{JOB_ID}/local/0/start", Party("local", "0")),
    ],
)  # fmt: skip
def test_spellings_of_one_path(endpoint: str, party: Party) -> None:
    assert read_command(endpoint, {}).to == party


def test_a_component_may_have_the_name_of_a_role() -> None:
    found = read_command(f"/party/{JOB_ID}/guest/{JOB_ID}_guest/0/host/10000/start", {})
    assert (found.kind, found.task) == (K.TASK_START, "guest")


@pytest.mark.parametrize(
    ("body", "run"),
    [
        ({"run": 2}, 2), ({"run": 0}, 0), ({}, ANY_RUN), ({"run": "2"}, ANY_RUN), ({"run": True}, ANY_RUN),
        ({"run": None}, ANY_RUN), ({"run": 1.5}, ANY_RUN), (None, ANY_RUN), ([1], ANY_RUN), ("text", ANY_RUN),
    ],
)  # fmt: skip
def test_our_own_peers_say_which_run_they_mean(body: Any, run: int) -> None:
    found = read_command(f"{JOB}/start", body)
    assert found.run == run
    assert found.body == (body if isinstance(body, dict) else {})


@pytest.mark.parametrize(
    "endpoint",
    [
        "", "/", "/party", f"/party/{JOB_ID}", f"{JOB}", f"{JOB}/", f"{JOB}/nonsense", f"{JOB}/start/now",
        f"{JOB}/status", f"{JOB}/status/waiting/now", f"{JOB}/stop", f"{JOB}/resource", f"{JOB}/resource/steal",
        f"{JOB}/Start", f"{JOB}/parameter/steal", f"{JOB}/component/check", f"{TASK}", f"{TASK}/nonsense",
        f"{TASK}/start/now", f"{TASK}/report/now", f"{TASK}/status", f"{TASK}/clean", f"{TASK}/stop/canceled/now",
        f"{INITIATOR}/guest/9999/rerun/now", f"{INITIATOR}/guest/9999/stop", f"{REPORT}/again", "/client/job/submit",
        f"/v1{JOB}/start",
    ],
)  # fmt: skip
def test_a_path_that_is_none_is_not_found(endpoint: str) -> None:
    with pytest.raises(NotFound, match="no such path") as missing:
        read_command(endpoint, {})
    assert missing.value.message.isprintable()


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        (f"{TASK}/report", "does not offer the report of a worker"),
    ],
)  # fmt: skip
def test_a_path_that_other_servers_have_says_so(endpoint: str, text: str) -> None:
    with pytest.raises(NotOffered, match=text) as missing:
        read_command(endpoint, {})
    assert endpoint.rpartition("/")[2] in missing.value.message
    assert "; instead: " in missing.value.message


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("/party/1234/host/10000/start", "job_id: '1234'"),
        ("/party/..%2f..%2fetc/host/10000/start", "job_id"),
        (f"/party/{JOB_ID}x/host/10000/start", "job_id"),
        (f"/party/{JOB_ID}\n/host/10000/start", "job_id"),
        (f"/party/{JOB_ID}/host/{'9' * 11}/start", "party_id"),
        (f"/party/{JOB_ID}/host/\u0661\u0662/start", "party_id"),                        # digits of another script
        (f"{JOB}/status/succ\u00e9ss", "status"),
        (f"{TASK}/clean/zzz", "content type: 'zzz' is not one of metrics, table"),
        (f"{JOB}/status/a-b", "status"), (f"{JOB}/stop/{'x' * 21}", "status"), (f"{JOB}/stop/..", "status"),
        (f"/party/{JOB_ID}/../{JOB_ID}_a/0/host/10000/start", "component_name: '..'"),
        (f"/party/{JOB_ID}/a/{JOB_ID}_b/0/host/10000/start", f"task_id: '{JOB_ID}_b' is not {JOB_ID}_a"),
        (f"/party/{JOB_ID}/a/20260101120000_a/0/host/10000/start", "task_id"),
        (f"/party/{JOB_ID}/a/{JOB_ID}_a/-1/host/10000/start", "task_version"),
        (f"/party/{JOB_ID}/a/{JOB_ID}_a/{2**31}/host/10000/start", "task_version"),
        (f"/party/{JOB_ID}/a/{JOB_ID}_a/0/owner/10000/start", "role"),
        (f"/party/{JOB_ID}/a/{JOB_ID}_a/0/host/../start", "party_id"),
        (f"/initiator/{JOB_ID}/a/{JOB_ID}_b/0/host/10000/report", "task_id"),
        ("/initiator/../guest/9999/stop/canceled", "job_id"),
        (f"/initiator/{JOB_ID}/owner/9999/stop/canceled", "role"),
        (f"/initiator/{JOB_ID}/guest/9999/stop/cancel-it", "status"),
    ],
)  # fmt: skip
def test_every_piece_of_a_path_is_checked_by_the_grammar(endpoint: str, text: str) -> None:
    with pytest.raises(BadRequest) as bad:
        read_command(endpoint, {})
    assert text in bad.value.message
    assert bad.value.message.isprintable()


@given(st.lists(st.sampled_from(["party", "initiator", JOB_ID, "host", "10000", "..", "", "a", f"{JOB_ID}_a", "0",
                                 "start", "status", "report", "stop", "\n", "\0", "%2e%2e"]), max_size=10))  # fmt: skip
def test_a_path_is_a_command_or_a_flow_error(parts: list[str]) -> None:
    try:
        found = read_command("/".join(parts), {})
    except FlowError:
        return
    assert found.job_id == JOB_ID
    assert found.to == HOST


def test_the_body_of_a_command_says_its_run() -> None:
    assert body_of(Command(K.APPLY, JOB_ID, HOST, 2, body={"turn": 7})) == {"turn": 7, "run": 2}


def test_the_headers_that_every_request_between_parties_carries() -> None:
    found = headers("9999", "10000")
    assert (found["SRC-PARTY-ID"], found["DEST-PARTY-ID"], found["SERVICE"]) == ("9999", "10000", "fateflow")
    assert tuple(int(one) for one in found["SRC-FATE-VER"].split(".")) >= (1, 7, 0)
    assert not [name for name in found if "_" in name]


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"retcode": 0, "retmsg": "success", "data": {"x": 1}}, Answer(0, "success", {"x": 1})),
        ({"retcode": 103, "retmsg": "no"}, Answer(103, "no")),
        ({"retcode": 0}, Answer(0, "")),
        ({"retcode": 103, "retmsg": 7}, Answer(103, "")),
        ({"retcode": 103, "retmsg": "x" * 5_000}, Answer(103, "x" * 1_000)),
        ({"retcode": 103, "retmsg": "\ud800\0"}, Answer(103, "??")),
    ],
)
def test_an_envelope_is_an_answer(document: Any, answer: Answer) -> None:
    assert read_answer(document) == answer


@pytest.mark.parametrize(
    "document", [None, [], "text", 7, {}, {"retmsg": "x"}, {"retcode": "0"}, {"retcode": None}, {"retcode": True}]
)
def test_what_is_no_envelope_is_no_answer(document: Any) -> None:
    with pytest.raises(ValueError, match="not an envelope"):
        read_answer(document)
