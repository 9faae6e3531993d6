"""A party refuses a job whose streams it cannot carry, or cannot open, before anything of the job is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Command
from fate_flow.jobspec.formats import NATIVE
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import create
from tests.kit.services.replicas import a_server
from tests.kit.values import HOST, JOB_ID

NO_PORT = "party 10001 has no port: streams cannot be opened to it"


def with_port(listen: str, connect: str) -> Command:
    """`create` of a job whose task has one port between two of its three parties."""
    one = create(HOST)
    file = {
        "version": 1, "initiator": "guest 9999", "parties": {"guest": [9999], "host": [10000, 10001]},
        "tasks": {"train": {
            "component": "Command", "ports": {"fl": {"listen": [listen], "connect": [connect]}},
            "parameters": {"command": ["/bin/true"]},
        }},
    }  # fmt: skip
    document = {"format": NATIVE, "body": file, "defaults": {"task_cores": 1}}
    return replace(one, body={**one.body, "document": document})


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
