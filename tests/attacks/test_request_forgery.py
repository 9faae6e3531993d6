"""Requests that a server, a browser or a client is made to send in an attacker's place."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import uuid4

import pytest
import requests

from fate_flow.cli.connection.signature import sign
from fate_flow.core.access.invitation import LIFE_MS, Invitation
from fate_flow.core.access.joining import NONCE_BYTES, Introduction, seal_first
from fate_flow.peers.invitations import Invitations, InvitationState
from fate_flow.peers.tls import stranger_context
from fate_flow.settings.client_keys import read_client_keys
from tests.kit.attacks.attacked_server import (
    HEARTBEAT,
    HONEST,
    HOSTILE,
    OF_P256,
    OWN,
    STRANGER,
    AttackedServer,
    Listener,
    all_of,
    create_body,
    new_job_id,
    program,
    reader,
)
from tests.kit.key_lists import signed_list
from tests.kit.site_keys import private_key
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

# ---------------------------------------------------------------------- of a web page


def signed(attacked: AttackedServer, path: str, body: bytes) -> dict[str, str]:
    keys, at, nonce = read_client_keys(attacked.home), str(attacked.clock()), uuid4().hex
    assert keys is not None
    signature = sign(keys.secret_key, at, nonce, keys.app_key, path, body)
    return {"TIMESTAMP": at, "NONCE": nonce, "APP_KEY": keys.app_key, "SIGNATURE": signature}


EVIL: tuple[dict[str, str], ...] = (
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"},
    {"Origin": "http://evil.example", "Host": "evil.example"},
)  # fmt: skip


@pytest.mark.parametrize("evil", EVIL, ids=str)
def test_no_web_page_of_another_site_asks_anything(attacked: AttackedServer, evil: dict[str, str]) -> None:
    """Even with the key of a client, which a browser does not have."""
    document, jobs = json.dumps(program(OWN, {"host": [HONEST]})).encode(), "SELECT count(*) AS n FROM t_job"
    before = (attacked.server.rows(jobs), attacked.server.rows("SELECT * FROM t_storage_table_meta"))
    for path, kind in (
        ("/v1/job/submit", "text/plain"), ("/v1/job/submit", "application/json"), ("/v1/job/query", "text/plain"),
        ("/v1/data/upload?%7B%22table_name%22:%22secret%22,%22namespace%22:%22it%22,%22drop%22:1%7D",
         "multipart/form-data; boundary=x"),
        (f"/v1/{HEARTBEAT}", "text/plain"), ("/v1/key/public/save", "text/plain"), ("/index.html", "text/plain"),
    ):  # fmt: skip
        head = signed(attacked, path, document) | {"Content-Type": kind, "SRC-PARTY-ID": HONEST}
        answer = requests.post(attacked.server.url + path, data=document, headers=head | evil, timeout=90)
        assert answer.status_code == 403, (path, answer.text)
    assert (attacked.server.rows(jobs), attacked.server.rows("SELECT * FROM t_storage_table_meta")) == before


# ---------------------------------------------------------------------- in the name of a client


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "multipart/form-data", "text/plain"])
def test_a_signature_over_nothing_holds_for_no_body(attacked: AttackedServer, own_job: str, kind: str) -> None:
    body = json.dumps({"job_id": own_job}).encode()
    for described in (b"", b"{}"):
        head = signed(attacked, "/v1/job/stop", described) | {"Content-Type": kind}
        answer = requests.post(f"{attacked.server.url}/v1/job/stop", data=body, headers=head, timeout=90).json()
        assert (answer["retcode"], "SIGNATURE" in answer["retmsg"]) == (109, True), answer
    assert attacked.server.job(own_job)["f_status"] == "running"


# ---------------------------------------------------------------------- by the server


def test_no_address_from_a_party_is_called(attacked: AttackedServer) -> None:
    with Listener() as elsewhere:
        port = int(elsewhere.url.rpartition(":")[2])
        names = ("url", "address", "callback", "uri", "server", "src_url")
        places: dict[str, Any] = dict.fromkeys(names, elsewhere.url)
        places |= {"host": "127.0.0.1", "ip": "127.0.0.1", "port": port, "call_back": True, "http_port": port}
        head = {"X_Forwarded_Host": f"127.0.0.1:{port}", "Referer": elsewhere.url, "Forwarded": f"host={elsewhere.url}"}
        job_id, document = new_job_id(), reader(HOSTILE, "open")
        document["job_runtime_conf"]["job_parameters"]["common"] |= places
        document["job_runtime_conf"]["component_parameters"]["common"]["toy_0"]["table"] |= places
        for party_id in (HOSTILE, OF_P256):
            for path, body in (
                ("party/intake", {}), (HEARTBEAT, {"jobs": []}), ("party/keys", {}), ("party/batch", {"commands": []}),
                ("party/validate", {**create_body(job_id, document), "role": "host", "party_id": OWN}),
                (f"party/{job_id}/host/{OWN}/create", create_body(job_id, document)),
            ):  # fmt: skip
                attacked.raw(party_id, path, {**body, **places}, **head)
        attacked.end(HOSTILE, job_id)
        refused = attacked.ask(OF_P256, "party/intake", {"call_back": True})
        assert (refused["retcode"], "has no route here" in refused["retmsg"]) == (108, True)
        assert elsewhere.count() == 0


def test_who_guesses_the_secret_of_an_invitation_has_no_address_called(attacked: AttackedServer) -> None:
    """A stranger reaches one route while an invitation is open, and that calls nobody who does not know the secret."""
    invitations = Invitations(attacked.home / "keys" / "invitations", attacked.clock)
    with Listener() as elsewhere:
        until = attacked.clock() + LIFE_MS
        open_one = Invitation("https://127.0.0.1:1", OWN, "ab" * 32, STRANGER, os.urandom(16), until)
        invitations.add(open_one, "ann")
        keys = signed_list(STRANGER, 1, private_key(8), tls=attacked.parties[STRANGER])
        address = elsewhere.url.replace("http:", "https:")
        said = Introduction(STRANGER, address, keys, "ab" * NONCE_BYTES, attacked.clock(), open_one.id)
        body = json.dumps({"text": seal_first(said, os.urandom(16), OWN, open_one.root_id).text()}).encode()
        head = "POST /v1/party/join HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode()
        other = request.replace(b"party/join", b"party/keys")
        answer = eventually(lambda: joined(attacked, other + body), "a stranger to be let in")
        assert answer.startswith(b"HTTP/1.1 404 ")
        for number in range(6):          # after the fifth, the gateway may let nobody in
            answer = joined(attacked, request + body)
            assert b'"retcode":0' not in answer.replace(b" ", b""), (number, answer)
        kept = invitations.find(open_one.id)
        assert kept is not None
        assert kept.state is InvitationState.SPENT
        assert elsewhere.count() == 0


def joined(attacked: AttackedServer, request: bytes) -> bytes:
    """What a stranger is answered; nothing if no invitation is open as far as the gateway has seen."""
    try:
        with attacked.connected(context=stranger_context()) as found:
            found.sendall(request)
            return all_of(found)
    except OSError:
        return b""
