"""Messages of workers between two servers that the coordinator gave different documents, or cannot tell that."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from fate_flow.api.between_parties.exchange import (
    ExchangeEnvelope,
    ForwardReply,
    deliver_blueprint,
    worker_blueprint,
)
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.components.base.errors import ExchangeError
from fate_flow.components.base.exchange import ExchangeReply, HttpChannel
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.chunks import Chunk
from fate_flow.core.wire.v1.paths import deliver_path
from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import PartyKey, Session

GUEST, HOST = ("guest", "9999"), ("host", "10000")
JOB_ID = "20260101120000"
OURS, THEIRS = "fate_v1:" + "1" * 64, "fate_v1:" + "2" * 64
REFUSED = (
    "the coordinator gave the two parties different documents: guest 9999 runs 111111111111, "
    "host 10000 runs 222222222222"
)


class Site:
    """The server of one seat. What its worker pushes to the other party goes to `peer`."""

    def __init__(self, home: Path, seat: PartyKey, document: str) -> None:
        self.session = Session(JOB_ID, f"{JOB_ID}_psi_0", 2, "a1b2c3d4", *seat)
        self.spool = Spool(home / seat[1], SpoolLimits(), lambda: None)
        self.spool.open(self.session, (GUEST, HOST), "token", document)
        self.peer: Site | None = None
        self.sent: list[Chunk] = []
        app = Flask(seat[1])
        routes = worker_blueprint(self.spool, self._forward, 2), deliver_blueprint(self.spool, seat[1])
        register_apis(app, Api(ExchangeEnvelope(), routes))
        self._client = app.test_client()

    def ask(self, operation: str, query: Any, body: bytes) -> ExchangeReply:
        """A request of its worker."""
        reply = self._post(f"/v1/exchange/{operation}", query, body, {"Authorization": "Bearer token"})
        return ExchangeReply(reply.status_code, reply.data)

    def take(self, sender: PartyKey, query: Any, body: bytes = b"x") -> TestResponse:
        """A message for its worker from a seat of another server."""
        one = self.session
        path = deliver_path(
            one.job_id, one.task_id, one.version, one.incarnation, Party(*sender), Party(one.role, one.party_id)
        )
        return self._post(f"/v1{path}", query, body, {"src-party-id": sender[1]})

    def has(self, sender: PartyKey) -> object:
        return self.spool.peek(self.session, "t", sender, 0)

    def _forward(self, sender: Session, role: str, party_id: str, chunk: Chunk, data: bytes) -> ForwardReply:
        assert self.peer is not None
        assert (role, party_id) == (self.peer.session.role, self.peer.session.party_id)
        self.sent.append(chunk)
        reply = self.peer.take((sender.role, sender.party_id), chunk.as_query(), data)
        return ForwardReply(reply.status_code, str((reply.json or {})["retmsg"]))

    def _post(self, path: str, query: Any, body: bytes, headers: dict[str, str]) -> TestResponse:
        length = {"CONTENT_LENGTH": str(len(body))}
        return self._client.post(f"{path}?{urlencode(query)}", data=body, headers=headers, environ_overrides=length)


def sites(home: Path, sender: str, receiver: str) -> tuple[Site, Site]:
    guest, host = Site(home, GUEST, sender), Site(home, HOST, receiver)
    guest.peer = host
    return guest, host


@pytest.mark.parametrize(("sent", "here"), [
    (OURS, OURS), ("", OURS), (OURS, ""), ("", ""), ("later:" + "2" * 64, OURS), (OURS, "later:" + "2" * 64),
], ids=["same", "older sender", "before the upgrade", "neither", "newer sender", "newer receiver"])  # fmt: skip
def test_a_message_is_taken_unless_the_documents_are_known_to_differ(tmp_path: Path, sent: str, here: str) -> None:
    guest, host = sites(tmp_path, sent, here)
    HttpChannel(guest.ask).push("t", Party(*HOST), b"hello")
    assert host.has(GUEST) == Message(b"hello", True)
    assert [chunk.document for chunk in guest.sent] == [sent]


def test_the_worker_of_another_document_fails_at_once_and_says_why(tmp_path: Path) -> None:
    guest, host = sites(tmp_path, OURS, THEIRS)
    channel = HttpChannel(guest.ask, sleep=lambda _: pytest.fail("it is not repeated"))
    with pytest.raises(ExchangeError) as caught:
        channel.push("t", Party(*HOST), b"hello")
    assert str(caught.value).startswith("push of t to host 10000: 403 ")
    assert REFUSED in str(caught.value)
    assert host.has(GUEST) is None
    assert len(guest.sent) == 1


def test_a_worker_cannot_choose_the_document_that_its_messages_name(tmp_path: Path) -> None:
    guest, host = sites(tmp_path, OURS, THEIRS)
    query = {"topic": "t", "role": "host", "party_id": "10000", "seq": 0, "last": 1, "document": THEIRS}
    assert guest.ask("push", query, b"x").status == 403
    assert (guest.sent, host.has(GUEST)) == ([Chunk("t", 0, True, OURS)], None)


def test_two_forms_of_a_job_that_one_party_cannot_have_alone_are_refused(tmp_path: Path) -> None:
    _, host = sites(tmp_path, "", THEIRS)
    reply = host.take(GUEST, Chunk("t", 0, True, "native:" + "1" * 64).as_query())
    assert (reply.status_code, reply.json) == (403, {"retcode": 403, "retmsg": REFUSED})


def test_only_a_seat_of_the_task_that_runs_learns_of_the_document(tmp_path: Path) -> None:
    _, host = sites(tmp_path, "", THEIRS)
    query = Chunk("t", 0, True, OURS).as_query()
    assert host.take(("guest", "10001"), query).status_code == 404
    host.spool.close(host.session)
    assert host.take(GUEST, query).status_code == 410
