"""Streams end when the grants are revoked by which a job has them here; workers go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.permission import INCOMING, OUTGOING, Kind, PermissionRule, Thing
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.job import TaskKey
from fate_flow.jobspec.formats import NATIVE
from fate_flow.services.context.ports import StreamsHere
from fate_flow.services.workers.allowed_streams import AllowedStreams
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import create
from tests.kit.services.replicas import a_server
from tests.kit.site_keys import private_key, site_key
from tests.kit.values import HOST, JOB_ID

COMPONENT = Thing(Kind.COMPONENT, "Command")
IN, OUT = (Thing(Kind.STREAM, "Command", one) for one in (INCOMING, OUTGOING))
HERE = StreamsHere(TaskKey(JOB_ID, "train", 0, HOST), "abcdef01")
OF_ANOTHER = StreamsHere(TaskKey("2026010112000000000009999", "train", 0, HOST), "abcdef01")


def a_host(listen: str = "guest", connect: str = "host") -> HandServer:
    """A host that has granted all that the job needs, which is here and has streams."""
    host = a_server()
    object.__setattr__(host.context, "permission", PermissionRule(components=True))
    with host.store.transaction() as tx:
        tx.grant("9999", [COMPONENT, IN, OUT])
    one = create(HOST)
    file: dict[str, Any] = {
        "version": 1, "initiator": "guest 9999", "parties": {"guest": [9999], "host": [10000]},
        "tasks": {"train": {
            "component": "Command", "ports": {"fl": {"listen": [listen], "connect": [connect]}},
            "parameters": {"command": ["/bin/true"]},
        }},
    }  # fmt: skip
    document = {"format": NATIVE, "body": file, "defaults": {"task_cores": 1}}
    answer = host.handle(replace(one, body={**one.body, "document": document}))
    assert answer.is_ok, answer.retmsg
    host.exchange.streams = (HERE, OF_ANOTHER)
    return host


def revoke(host: HandServer, *things: Thing) -> None:
    with host.store.transaction() as tx:
        tx.revoke("9999", things)


@pytest.mark.parametrize(
    ("listen", "connect", "revoked"),
    [("guest", "host", OUT), ("host", "guest", IN), ("guest", "host", COMPONENT)],
)
def test_streams_end_when_a_grant_that_they_need_is_revoked(listen: str, connect: str, revoked: Thing) -> None:
    host = a_host(listen, connect)
    allowed = AllowedStreams(host.context)
    allowed.look()
    assert "end_streams" not in host.exchange.names()
    revoke(host, revoked)
    allowed.look()
    allowed.look()
    why = f"host 10000 has not granted party 9999: {revoked} (flow privilege grant, there)"
    assert [one for one in host.exchange.calls if one[0] == "end_streams"] == [("end_streams", HERE, why)]
    assert host.exchange.streams == (OF_ANOTHER,)


def test_streams_end_when_the_key_of_the_other_party_is_deleted() -> None:
    host = a_host()
    allowed = AllowedStreams(host.context)
    with host.store.transaction() as tx:
        tx.add_site_key(site_key("9999", private_key(1)), 0)
    object.__setattr__(host.context, "site", SiteRule(is_on=True))
    allowed.look()
    assert "end_streams" not in host.exchange.names()
    with host.store.transaction() as tx:
        tx.drop_site_key("9999")
    allowed.look()
    why = "host 10000 has no key of party 9999 any more that is valid"
    assert ("end_streams", HERE, why) in host.exchange.calls


def test_grants_that_they_do_not_need_end_nothing() -> None:
    host = a_host()
    allowed = AllowedStreams(host.context)
    revoke(host, IN)
    allowed.look()
    assert "end_streams" not in host.exchange.names()


def test_they_are_looked_at_again_only_if_grants_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    host, asked = a_host(), list[TaskKey]()
    monkeypatch.setattr(
        "fate_flow.services.workers.allowed_streams.why_not_now", lambda unit, spec, key: asked.append(key) or ""
    )
    allowed = AllowedStreams(host.context)
    for _ in range(3):
        allowed.look()
    assert asked == [HERE.key]
    revoke(host, IN)
    allowed.look()
    assert asked == [HERE.key] * 2
