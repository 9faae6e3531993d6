"""A party refuses a job whose streams it cannot carry, or cannot open, before anything of the job is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fate_flow.core.access.permission import OUTGOING, Kind, PermissionRule, Thing
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Command
from fate_flow.core.model.spec import Party
from fate_flow.core.streams.pairs import pairs_from
from fate_flow.jobspec.formats import NATIVE
from fate_flow.services.participant.stream_calls import StreamCalls
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.store.values import Document
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import create
from tests.kit.services.replicas import a_server
from tests.kit.values import HOST, JOB_ID

NO_PORT = "party 10001 has no port: streams cannot be opened to it"


def with_port(listen: str, connect: str) -> Command:
    """`create` of a job whose task has one port between two of its three parties."""
    one = create(HOST)
    document = {"format": NATIVE, "body": file(listen, connect), "defaults": {"task_cores": 1}}
    return replace(one, body={**one.body, "document": document})


def file(listen: str, connect: str) -> dict[str, Any]:
    return {
        "version": 1, "initiator": "guest 9999", "parties": {"guest": [9999], "host": [10000, 10001]},
        "tasks": {"train": {
            "component": "Command", "ports": {"fl": {"listen": [listen], "connect": [connect]}},
            "parameters": {"command": ["/bin/true"]},
        }},
    }  # fmt: skip


def a_host(**context: Any) -> HandServer:
    host = a_server()
    host.context = replace(host.context, **context)
    return host


@pytest.mark.parametrize(
    ("listen", "connect", "expected"),
    [
        ("host 10001", "host 10000", f"port fl of train: host 10000 does not reach host 10001: {NO_PORT}"),
        ("guest", "host 10000", ""),
        ("host 10000", "host 10001", ""),          # 10001 opens it
        ("guest", "host 10001", ""),               # none of this party's
    ],
)
def test_streams_to_a_party_that_is_not_reached_are_refused(listen: str, connect: str, expected: str) -> None:
    host = a_host(why_no_stream=lambda party_id: NO_PORT if party_id == "10001" else "")
    assert said(host, with_port(listen, connect)) == expected


@pytest.mark.parametrize(("listen", "connect"), [("host 10000", "guest"), ("guest", "host 10000")])
def test_a_party_without_a_gateway_refuses_streams(listen: str, connect: str) -> None:
    expected = "host 10000 has no gateway, which carries streams (parties.listen.port, there): train"
    assert said(a_host(carries_streams=False), with_port(listen, connect)) == expected


def test_a_party_without_a_gateway_takes_part_where_others_have_streams() -> None:
    assert said(a_host(carries_streams=False), with_port("guest", "host 10001")) == ""


def said(host: HandServer, command: Command) -> str:
    """The refusal; empty if the job was accepted."""
    answer = host.handle(command)
    with host.store.reading() as tx:
        assert bool(tx.jobs_here(JOB_ID)) is answer.is_ok
    return "" if answer.is_ok else answer.retmsg


# ---------------------------------------------------------------------- the calls

REFUSED = "its server is not reached: connection refused"
SAID = f"port fl of train: host 10000 does not reach guest 9999: {REFUSED}"


@dataclass
class Calls:
    """What the own gateway says of the others; `asked`: the pairs, one list for each question."""

    why: str = REFUSED
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, pairs: Sequence[tuple[Party, Party]]) -> list[str]:
        self.asked.append([f"{caller} to {to}" for caller, to in pairs])
        return [self.why] * len(pairs)


def use_cases(server: HandServer, calls: Calls, most: int = 4, seconds: float = 10.0) -> UseCases:
    clock = iter(range(100))
    opens = StreamCalls(calls, most, seconds, lambda: float(next(clock)))
    return UseCases(server.context, lambda *_: None, 2, 30.0, opens=opens)


def test_a_party_whose_call_is_not_answered_refuses_the_job_and_keeps_nothing() -> None:
    host, calls = a_server(), Calls()
    asked = with_port("guest", "host 10000")
    [answer] = use_cases(host, calls).commands.carry_out([asked], "9999")
    assert (answer.retcode, answer.retmsg, host.job_or_none()) == (103, SAID, None)
    assert calls.asked == [["host 10000 to guest 9999"]]
    calls.why = ""
    [answer] = use_cases(host, calls).commands.carry_out([asked], "9999")
    assert answer.is_ok


def test_validate_says_so_beforehand() -> None:
    host, calls = a_server(), Calls()
    asked = with_port("guest", "host 10000")
    preview = use_cases(host, calls).commands.preview(asked, "9999")
    assert (preview.retcode, preview.retmsg, preview.data) == (103, SAID, {"previewed": True})
    calls.why = ""
    assert use_cases(host, calls).commands.preview(asked, "9999").is_ok


@pytest.mark.parametrize(("listen", "connect"), [("host 10000", "guest"), ("guest", "host 10001")])
def test_a_party_calls_only_where_its_own_workers_connect(listen: str, connect: str) -> None:
    host, calls = a_server(), Calls()
    assert use_cases(host, calls).commands.carry_out([with_port(listen, connect)], "9999")[0].is_ok
    assert calls.asked == []


@pytest.mark.parametrize(("granted", "caller", "text"), [
    ((), "9999", "host 10000 has not granted party 9999: component Command, outgoing streams of component Command"),
    (
        (Thing(Kind.COMPONENT, "Command"), Thing(Kind.STREAM, "Command", OUTGOING)), "10001",
        "initiator: guest 9999 is not party 10001, which sent the job",
    ),
])  # fmt: skip
def test_nobody_is_called_for_a_job_of_somebody_without_a_grant(granted: Any, caller: str, text: str) -> None:
    """Else its initiator would learn whom this server reaches, and let it call anybody."""
    host, calls = a_host(permission=PermissionRule(components=True)), Calls()
    cases = use_cases(host, calls)
    cases.permissions.grant("9999", granted)
    asked = with_port("host 10001", "host 10000")
    for answer in (*cases.commands.carry_out([asked], caller), cases.commands.preview(asked, caller)):
        assert (answer.retcode, answer.retmsg.removesuffix(" (flow privilege grant, there)")) == (108, text)
    assert calls.asked == []


def test_a_job_that_is_here_already_is_not_called_for_again() -> None:
    host, calls = a_server(), Calls("")
    asked = with_port("guest", "host 10000")
    commands = use_cases(host, calls, seconds=0.0).commands
    for _ in range(2):
        assert commands.carry_out([asked], "9999")[0].is_ok
        calls.why = REFUSED
    assert len(calls.asked) == 1


def test_a_success_is_remembered_for_a_while() -> None:
    host, calls = a_server(), Calls("")
    commands = use_cases(host, calls, seconds=4.0).commands
    for _ in range(3):
        assert commands.preview(with_port("guest", "host 10000"), "9999").is_ok
    before = len(calls.asked)
    for _ in range(3):
        assert commands.preview(with_port("guest", "host 10000"), "9999").is_ok
    assert (before, len(calls.asked)) == (1, 2)


def test_only_so_many_handlers_wait_for_calls() -> None:
    host, calls = a_server(), Calls()
    assert use_cases(host, calls, most=0).commands.preview(with_port("guest", "host 10000"), "9999").is_ok
    assert calls.asked == []


def test_the_initiator_calls_too_before_it_asks_others() -> None:
    guest, calls = a_server(party_id="9999"), Calls()
    document = Document({}, {}, {}, own=JobDocument(NATIVE, file("host 10000", "guest")))
    parsed = guest.parsed(document)
    expected = f"port fl of train: guest 9999 does not reach host 10000: {REFUSED}"
    submits = use_cases(guest, calls).submits
    with pytest.raises(OperationFailed, match=expected):
        submits.submit(JOB_ID, parsed)
    assert submits.why_not_opened(parsed.spec, Party("guest", "9999")) == expected
    assert guest.outbox() == []
    assert guest.job_or_none(Party("guest", "9999")) is None


def test_a_party_that_a_task_can_do_without_is_not_called() -> None:
    optional = file("host", "guest")
    optional["tasks"]["train"]["min_available"] = {"host": 1}
    for one, expected in ((file("host", "guest"), 2), (optional, 0)):
        spec = a_server(party_id="9999").parsed(Document({}, {}, {}, own=JobDocument(NATIVE, one))).spec
        assert len([*pairs_from(spec, [Party("guest", "9999")])]) == expected


def test_many_problems_are_counted() -> None:
    one = file("host", "guest")
    one["parties"]["host"] = [10000 + number for number in range(8)]
    spec = a_server(party_id="9999").parsed(Document({}, {}, {}, own=JobDocument(NATIVE, one))).spec
    why = StreamCalls(Calls()).why_not(spec, [Party("guest", "9999")])
    assert why.count(REFUSED) == 5
    assert why.endswith("; and 3 more")
