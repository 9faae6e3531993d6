"""Requests of other parties are signed, where `authentication.site` is on: each attack of threats-and-faults.md that
this answers has a test by its name."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict
from werkzeug.test import TestResponse

from fate_flow.api import app as public
from fate_flow.api.app import create_public_app
from fate_flow.api.http.client_auth import WINDOW_MS, is_for_clients
from fate_flow.cli.connection.signature import sign as sign_as_client
from fate_flow.core.access.key_list import MESSAGE, KeyState, PartyKeys
from fate_flow.core.access.site import SiteKey, SiteRule
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import DIGEST, INPUT, NAMES, SIGNATURE, SiteSignature, digest_of
from fate_flow.peers.signed_answers import NotProved, SignedAnswers
from fate_flow.peers.site_key import PrivateKey, make_private_key
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import OWN_KEY, World, make_world
from tests.kit.api.routes_compiled_once import with_routes_compiled_once
from tests.kit.key_lists import ROOT, listed, signed_list
from tests.kit.site_keys import private_pem, site_key, write_private_key

NOW = 1_700_000_000_000
ON = SiteRule(is_on=True)
KEYS = ClientKeys("our-clients", "secret-of-9999")
HEARTBEAT = "/v1/party/heartbeat"
BODY = b'{"jobs": []}'
JOB, SESSION = "20260101120000000001", "0" * 32
DELIVER = f"/v1/exchange/deliver/{JOB}/{JOB}_toy_0/0/{SESSION}/host/10000/guest/9999"

Head = dict[str, str]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the server; may be moved."""
    moment = [NOW]
    monkeypatch.setattr(public, "now_on_the_wall", lambda: moment[0])
    return moment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    """Of party 10000, whose public key is saved."""
    return write_private_key(tmp_path / "10000.pem", 1)


@pytest.fixture
def other(tmp_path: Path) -> PrivateKey:
    """Of party 10001, the same."""
    return write_private_key(tmp_path / "10001.pem", 2)


@pytest.fixture
def world(home: Path, now: list[int], key: PrivateKey, other: PrivateKey) -> World:
    return with_keys(make_world(home, site=ON), site_key("10000", key), site_key("10001", other))


def with_keys(world: World, *keys: SiteKey) -> World:
    with world.store.transaction() as tx:
        for one in keys:
            tx.add_site_key(one, NOW)
    return world


def signed(
    key: PrivateKey, *, path: str = HEARTBEAT, body: bytes = BODY, source: str = "10000", to: str = "9999",
    at: int = NOW, method: str = "POST", asks: bool = False,
) -> Head:  # fmt: skip
    """The headers of a request as a server sends it; `asks`: for a signed answer."""
    sender = SiteSignature(key, lambda: at, SignedAnswers({to} if asks else (), lambda _: (site_key(to, OWN_KEY),)))
    head = headers(source, to)
    return head | sender.fields(method, path, head, body)


def post(world: World, head: Mapping[str, str], body: bytes = BODY, path: str = HEARTBEAT) -> TestResponse:
    kept = {name: value for name, value in head.items() if name != "Content-Length"}
    return world.client.post(path, data=body, headers=kept)


def refusal(response: TestResponse) -> str:
    said = response.get_json()
    assert (response.status_code, said["retcode"]) == (200, 109), said
    assert "data" not in said
    return str(said["retmsg"])


def test_a_signed_request_is_answered(world: World, key: PrivateKey) -> None:
    said = post(world, signed(key)).get_json()
    assert (said["retcode"], said["data"]["ended"]) == (0, {})


def test_rsa_keys_are_taken(world: World, tmp_path: Path) -> None:
    rsa = make_private_key(tmp_path / "rsa.pem", "rsa")
    with_keys(world, site_key("10002", rsa))
    assert post(world, signed(rsa, source="10002")).get_json()["retcode"] == 0
    assert "keyid: the request was signed with key" in refusal(post(world, signed(rsa)))


def test_each_valid_key_of_a_key_list_is_taken_and_no_other(world: World, key: PrivateKey, tmp_path: Path) -> None:
    one, two, three = (write_private_key(tmp_path / f"{number}.pem", number) for number in (11, 12, 13))
    untils = ((one, None), (two, NOW + 1), (three, NOW))
    keys = tuple(listed(MESSAGE, each.public.pem, until) for each, until in untils)
    signed_one = signed_list("10000", 1, keys=keys)
    stored = PartyKeys("10000", 1, ROOT.public.key_id, signed_one, 1, KeyState.JOINED, "", 1)
    with world.store.transaction() as tx:
        assert tx.add_party_keys(stored)
    for valid in (one, two):
        assert post(world, signed(valid)).get_json()["retcode"] == 0
    for other in (key, three):
        said = refusal(post(world, signed(other)))
        assert f"has the key {one.public.key_id[:16]}... and {two.public.key_id[:16]}... of party 10000" in said
    with world.store.transaction() as tx:
        tx.move_party_keys("10000", KeyState.JOINED, KeyState.REVOKED, "ann", 1)
    assert "has no public key of party 10000" in refusal(post(world, signed(one)))


# ---------------------------------------------------------------------- attacks


@pytest.mark.parametrize("source", ["10001", "10002", "9999", "0", "", "x", "10000,10001"])
def test_identity_from_a_header(world: World, key: PrivateKey, source: str) -> None:
    """The header is believed of whoever has the key of that party: not the own one, nor absent or "0"."""
    assert refusal(post(world, signed(key, source=source)))
    assert refusal(post(world, {**signed(key), "SRC-PARTY-ID": source}))


def test_a_key_speaks_for_its_own_party_only(world: World, key: PrivateKey, other: PrivateKey) -> None:
    said = refusal(post(world, signed(other, source="10000")))
    assert (key.public.key_id[:16] in said, other.public.key_id[:16] in said) == (True, True)
    mixed = {**signed(other, source="10000")}
    mixed[INPUT] = mixed[INPUT].replace(other.public.key_id, key.public.key_id)
    assert "signature: does not match" in refusal(post(world, mixed))


CHANGES: dict[str, Callable[[Head], tuple[Head, dict[str, Any]]]] = {
    "@path": lambda head: (head, {"path": "/v1/party/history"}),
    "@path to the initiator": lambda head: (head, {"path": f"/v1/initiator/{JOB}/guest/9999/stop/canceled"}),
    "@query": lambda head: (head, {"path": f"{HEARTBEAT}?a=1"}),
    "content-digest": lambda head: ({**head, DIGEST: digest_of(b"{}")}, {"body": b"{}"}),
    "the body alone": lambda head: (head, {"body": b'{"jobs": [["1", 1]]}'}),
    "no body": lambda head: (head, {"body": b""}),
    "src-party-id": lambda head: ({**head, "SRC-PARTY-ID": "10001"}, {}),
    "src-party-id in other digits": lambda head: ({**head, "SRC-PARTY-ID": "010000"}, {}),
    "dest-party-id": lambda head: ({**head, "DEST-PARTY-ID": "10001"}, {}),
    "created": lambda head: ({**head, INPUT: head[INPUT].replace(f"={NOW // 1000};", f"={NOW // 1000 + 1};")}, {}),
    "nonce": lambda head: ({**head, INPUT: head[INPUT].replace('nonce="', 'nonce="a')}, {}),
    "keyid": lambda head: ({**head, INPUT: head[INPUT].replace('keyid="', 'keyid="0')}, {}),
    "tag": lambda head: ({**head, INPUT: re.sub(r'tag="[^"]*"', 'tag="other"', head[INPUT])}, {}),
    "no tag": lambda head: ({**head, INPUT: re.sub(r';tag="[^"]*"', "", head[INPUT])}, {}),
    "an algorithm": lambda head: ({**head, INPUT: f'{head[INPUT]};alg="hmac-sha256"'}, {}),
    "the signature": lambda head: ({**head, SIGNATURE: head[SIGNATURE].replace("=:", "=:AAAA")}, {}),
    "no signature": lambda head: ({**head, SIGNATURE: ""}, {}),
    "no input": lambda head: ({**head, INPUT: ""}, {}),
    "an empty signature": lambda head: ({**head, SIGNATURE: "site=::"}, {}),
    "a second signature": lambda head: ({**head, INPUT: f'{head[INPUT]}, b=("@method")'}, {}),
    **{
        f"without {name}": lambda head, name=name: (      # type: ignore[misc]
            {**head, INPUT: head[INPUT].replace(f'"{name}"', "").replace("( ", "(").replace("  ", " ")}, {})
        for name in NAMES
    },
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_signature_over_the_body_alone(world: World, key: PrivateKey, change: Any) -> None:
    """In FATE one captured `{}` served for all commands of any job, for ever. Here nothing of it may be changed."""
    head, more = change(signed(key))
    assert refusal(post(world, head, **more))
    assert post(world, signed(key)).get_json()["retcode"] == 0


def test_the_method_is_signed(world: World, key: PrivateKey) -> None:
    assert "signature: does not match" in refusal(post(world, signed(key, method="PUT")))


def test_replay(world: World, home: Path, key: PrivateKey) -> None:
    """Once, by whatever process, and after a restart."""
    head = signed(key)
    assert post(world, head).get_json()["retcode"] == 0
    assert "nonce: a request with this nonce was already accepted" in refusal(post(world, head))
    world.store.database.close()
    restarted = make_world(home, site=ON)
    assert "already accepted" in refusal(post(restarted, head))
    assert post(restarted, signed(key)).get_json()["retcode"] == 0


def test_two_parties_may_use_the_same_nonce(
    world: World, key: PrivateKey, other: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fate_flow.peers.signature.secrets.token_urlsafe", lambda _: "n" * 24)
    assert post(world, signed(key)).get_json()["retcode"] == 0
    assert post(world, signed(other, source="10001")).get_json()["retcode"] == 0
    assert refusal(post(world, signed(key)))


@pytest.mark.parametrize("away", [-WINDOW_MS - 1000, WINDOW_MS + 1000])
def test_stale_and_early_requests(world: World, key: PrivateKey, now: list[int], away: int) -> None:
    said = refusal(post(world, signed(key, at=NOW + away)))
    assert f"created: is 61 s {'after' if away > 0 else 'before'} the time of party 9999" in said
    now[0] += away
    assert post(world, signed(key, at=NOW + away)).get_json()["retcode"] == 0


def test_a_replay_after_its_nonce_is_forgotten_is_stale(world: World, key: PrivateKey, now: list[int]) -> None:
    head = signed(key)
    assert post(world, head).get_json()["retcode"] == 0
    now[0] += 3 * WINDOW_MS
    assert post(world, signed(key, at=now[0])).get_json()["retcode"] == 0      # which sweeps
    assert "created" in refusal(post(world, head))


def test_a_request_for_another_party(world: World, key: PrivateKey) -> None:
    """What 10000 signed for 10001 is of no use here."""
    head = signed(key, to="10001")
    assert "DEST-PARTY-ID: this is party 9999, not '10001'" in refusal(post(world, head))
    assert "signature: does not match" in refusal(post(world, {**head, "DEST-PARTY-ID": "9999"}))


def test_an_unknown_key(world: World, tmp_path: Path) -> None:
    said = refusal(post(world, signed(write_private_key(tmp_path / "x.pem", 9), source="10002")))
    assert said == "party 9999 has no public key of party 10002: run flow key save there"


def test_a_wrong_key(world: World, tmp_path: Path, key: PrivateKey) -> None:
    wrong = write_private_key(tmp_path / "x.pem", 9)
    said = refusal(post(world, signed(wrong)))
    assert said == (
        f"keyid: the request was signed with key {wrong.public.key_id[:16]}..., and party 9999 has the key "
        f"{key.public.key_id[:16]}... of party 10000: run flow key save there if the new key is right"
    )


def test_an_unsigned_request(world: World) -> None:
    said = refusal(post(world, headers("10000", "9999")))
    assert said == (
        "party 9999 requires signed requests of party 10000 (docs/reference/signatures.md): turn on "
        "authentication.site at party 10000, or let its route name the gateway of party 9999 (https)"
    )


def test_a_key_that_is_deleted_is_not_believed_any_more(world: World, key: PrivateKey) -> None:
    assert post(world, signed(key)).get_json()["retcode"] == 0
    with world.store.transaction() as tx:
        tx.drop_site_key("10000")
    assert "no public key of party 10000" in refusal(post(world, signed(key)))


def test_every_route_of_other_parties_is_checked(world: World, tmp_path: Path) -> None:
    """And none of clients: `/v1/party/list` is for them, whatever it looks like."""
    app = with_routes_compiled_once(lambda: create_public_app(world.services, a_spool(tmp_path), lambda: OWN_KEY))
    checked = 0
    for rule in app.url_map.iter_rules():
        path = rule.rule
        for name in rule.arguments:
            path = path.replace(f"<path:{name}>", "x").replace(f"<{name}>", "x")
        for method in (rule.methods or set()) & {"GET", "POST"}:
            said = app.test_client().open(path, method=method, json={})
            is_refused = said.status_code == 403 or (said.is_json and said.json.get("retcode") == 109)
            assert is_refused is not is_for_clients(rule.rule), (method, path, said.data)
            checked += is_refused
    assert checked >= 10


# ---------------------------------------------------------------------- signed answers


ANSWERS = SignedAnswers({"9999"}, lambda _: (site_key("9999", OWN_KEY),))


def check(head: Head, response: TestResponse, body: bytes = b"") -> None:
    """Take an answer as the server that has sent these headers does. Raises NotProved."""
    answered = CaseInsensitiveDict(response.headers.items())
    ANSWERS.check("9999", CaseInsensitiveDict(head), response.status_code, answered, body or response.data)


def is_signed(response: TestResponse) -> bool:
    return any(name in response.headers for name in (INPUT, SIGNATURE, DIGEST))


def test_the_answer_to_a_request_that_asks_for_it_is_signed(world: World, key: PrivateKey) -> None:
    head = signed(key, asks=True)
    response = post(world, head)
    check(head, response)
    assert response.get_json()["retcode"] == 0
    with pytest.raises(NotProved, match="Content-Digest"):
        check(head, response, b"{}")
    with pytest.raises(NotProved, match="signature: does not match its answer to this request"):
        check(signed(key, asks=True), response)


def test_an_older_peer_gets_the_answer_of_before(world: World, key: PrivateKey) -> None:
    assert not is_signed(post(world, signed(key)))


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_what_is_changed_on_the_way_gets_no_signature(world: World, key: PrivateKey, change: Any) -> None:
    """A signed answer to it would be one to the request that was sent: both have the same signature."""
    head, more = change(signed(key, asks=True))
    response = post(world, head, **more)
    assert refusal(response)
    assert not is_signed(response)


def test_a_replay_gets_no_signature(world: World, key: PrivateKey) -> None:
    """Whoever sends a request a second time must not get what proves that it was refused."""
    head = signed(key, asks=True)
    check(head, post(world, head))
    again = post(world, head)
    assert ("already accepted" in refusal(again), is_signed(again)) == (True, False)


def test_another_method_and_another_path_get_no_signature(world: World, key: PrivateKey) -> None:
    for path in ("/v1/nothing", "/v1/party/list", "/v1/version/get"):
        assert not is_signed(post(world, signed(key, asks=True, path=path), path=path))
    kept = {name: value for name, value in signed(key, asks=True).items() if name != "Content-Length"}
    assert not is_signed(world.client.get(HEARTBEAT, data=BODY, headers=kept))


def test_refusals_and_errors_of_an_accepted_request_are_signed(
    world: World, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"jobs": 7}'
    head = signed(key, asks=True, body=body)
    refused = post(world, head, body)
    check(head, refused)
    assert refused.get_json()["retcode"] != 0
    monkeypatch.setattr(type(world.services.use_cases.commands), "heartbeat", lambda *_: 1 // 0)
    head = signed(key, asks=True)
    failed = post(world, head)
    check(head, failed)
    assert failed.get_json()["retcode"] != 0


@pytest.mark.parametrize(("created", "expires", "why"), [
    (0, -1, "expires: is not within 60 s after created"),
    (0, 0, "expires: is not within 60 s after created"),
    (0, 61, "expires: is not within 60 s after created"),
    (-30, -29, "expires: is 29 s before the time of party 9999: correct the clocks"),
    (-61, -1, "created: is 61 s before the time of party 9999"),
    (61, 121, "created: is 61 s after the time of party 9999"),
    (-30, 0, ""), (60, 61, ""), (0, 60, ""),
])  # fmt: skip
def test_a_request_expires_when_its_sender_says(
    world: World, key: PrivateKey, created: int, expires: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fate_flow.peers.signature.VALID_SECONDS", expires - created)
    head = signed(key, asks=True, at=NOW + created * 1000)
    assert f"expires={NOW // 1000 + expires};" in head[INPUT]
    response = post(world, head)
    if why:
        assert why in refusal(response)
    else:
        check(head, response)


# ---------------------------------------------------------------------- the exchange


def a_spool(folder: Path) -> Spool:
    return Spool(folder / "spool", SpoolLimits(), lambda: None)


def deliver(world: World, folder: Path, head: Head, body: bytes, path: str) -> TestResponse:
    kept = {name: value for name, value in head.items() if name != "Content-Length"}
    app = with_routes_compiled_once(lambda: create_public_app(world.services, a_spool(folder), lambda: OWN_KEY))
    return app.test_client().post(path, data=body, headers=kept)


def test_chunks_of_the_exchange_are_signed_with_their_query_and_body(
    world: World, tmp_path: Path, key: PrivateKey, other: PrivateKey
) -> None:
    path, body = f"{DELIVER}?topic=a%2Fb&seq=0&last=1", b"\x00" * 100_000
    good = signed(key, path=path, body=body)
    taken = deliver(world, tmp_path, good, body, path)
    assert taken.status_code == 425, taken.data          # believed; the session has not begun here
    asking = signed(key, path=path, body=body, asks=True)
    check(asking, deliver(world, tmp_path, asking, body, path))
    for changed_path, changed_body in ((path.replace("seq=0", "seq=1"), body), (path, body + b"\x00")):
        head = signed(key, path=path, body=body)
        refused = deliver(world, tmp_path, head, changed_body, changed_path)
        assert (refused.status_code, refused.get_json()["retcode"]) == (403, 403)
    refused = deliver(world, tmp_path, signed(other, path=path, body=body, source="10001"), body, path)
    assert (refused.status_code, "may not speak for host 10000" in refused.get_json()["retmsg"]) == (403, True)


# ---------------------------------------------------------------------- what else can go wrong


def test_talkative_errors(
    world: World, key: PrivateKey, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the peer nor the log gets a signature, a key or a body; the log has one line for it."""
    caplog.set_level(logging.DEBUG)
    body = b'{"jobs": "a secret\\n of mine"}'
    wrong = signed(write_private_key(tmp_path / "x.pem", 9), body=body)
    for head in (wrong, {**signed(key, body=body), INPUT: "nonsense\x1b[31m"}, signed(key)):
        caplog.clear()
        said = refusal(post(world, head, body))
        [line] = [record.getMessage() for record in caplog.records if record.name == "fate_flow.api.http.site_auth"]
        assert line == f"refused '{HEARTBEAT}' of party '10000': {said}"
        for secret in (head[SIGNATURE], private_pem(1).splitlines()[1], key.public.pem, "a secret", "\x1b", "nonsense"):
            assert secret not in caplog.text + said


def test_nothing_is_read_before_the_signature_is_right(
    world: World, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    get_data = world.app.request_class.get_data

    def noted(request: Any, *args: Any, **more: Any) -> Any:
        read.append(1)
        return get_data(request, *args, **more)

    monkeypatch.setattr(world.app.request_class, "get_data", noted)
    assert refusal(post(world, {**signed(key), "SRC-PARTY-ID": "10001"}))
    assert read == []
    assert post(world, signed(key)).get_json()["retcode"] == 0
    assert read


def test_a_refused_request_uses_up_no_nonce(world: World, key: PrivateKey) -> None:
    """Else whoever sees a request could spoil it by being first with another body."""
    head = signed(key)
    assert "Content-Digest" in refusal(post(world, head, b"{}"))
    assert post(world, head).get_json()["retcode"] == 0


def test_a_disk_that_is_full_is_no_answer_to_the_command(world: World, key: PrivateKey, home: Path) -> None:
    """The sender tries it again; a retcode would have told it that the command was refused."""
    (home / "run").mkdir()
    (home / "run" / "site_nonces").write_text("in the way")
    assert post(world, signed(key)).status_code == 500


@pytest.mark.parametrize("clients", [KEYS, None])
@pytest.mark.parametrize("site", [ON, SiteRule()])
def test_switching_one_check_on_turns_no_other_off(
    home: Path, now: list[int], key: PrivateKey, clients: ClientKeys | None, site: SiteRule
) -> None:
    world = with_keys(make_world(home, client_keys=clients, site=site), site_key("10000", key))

    def answer(path: str, head: Mapping[str, str], body: bytes = b"{}") -> int:
        return int(world.client.post(path, data=body, headers=dict(head)).get_json()["retcode"])

    plain = headers("10000", "9999")
    assert answer("/v1/version/get", plain) == (109 if clients else 0)
    assert answer(HEARTBEAT, plain, BODY) == (109 if site.is_on else 0)
    signature = sign_as_client(KEYS.secret_key, str(NOW), "n1", KEYS.app_key, HEARTBEAT, BODY)
    as_client = {"TIMESTAMP": str(NOW), "NONCE": "n1", "APP_KEY": KEYS.app_key, "SIGNATURE": signature}
    assert answer(HEARTBEAT, {**plain, **as_client}, BODY) == (109 if site.is_on else 0), "clients are no parties"
    as_party = {name: value for name, value in signed(key, path="/v1/version/get", body=b"{}").items()
                if name != "Content-Length"}
    assert answer("/v1/version/get", as_party) == (109 if clients else 0), "parties are no clients"


def test_a_party_that_is_listed_is_believed_without_a_signature(home: Path, now: list[int]) -> None:
    rule = SiteRule(is_on=True, unsigned_from=frozenset({"10000"}))
    world = make_world(home, site=rule)
    assert post(world, {"src-party-id": "10000"}).get_json()["retcode"] == 0
    assert refusal(post(world, {"src-party-id": "10001"}))
    assert refusal(post(world, {}))


def test_a_job_with_a_party_whose_key_is_missing_is_refused(world: World, key: PrivateKey) -> None:
    with world.store.transaction() as tx:
        tx.drop_site_key("10000")
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": {"task_cores": 1}}, "component_parameters": {},
    }
    dsl = {"components": {"toy_0": {"module": "SecureAddExample"}}}
    for route in ("job/submit", "job/validate"):
        said = world.ask(route, {"job_dsl": dsl, "job_runtime_conf": conf})
        assert "guest 9999 has no public key of party 10000 (flow key save, there)" in said["retmsg"], json.dumps(said)
