"""`POST /v1/key/...`: public keys of parties. No private key is handed out, and none is replaced unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fate_flow.core.access.site import SiteRule
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import SiteSignature
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import World, make_world
from tests.kit.site_keys import private_pem, site_key, write_private_key


@pytest.fixture
def pems(tmp_path: Path) -> tuple[str, str]:
    one, two = (write_private_key(tmp_path / f"{number}.pem", number).public.pem for number in (1, 2))
    return one, two


def query(world: World, party_id: object, **more: object) -> dict[str, object]:
    return world.ask("key/query", {"party_id": party_id, **more})


def test_a_key_is_saved_once_and_shown(world: World, pems: tuple[str, str]) -> None:
    first = world.ask("key/public/save", {"party_id": 10000, "key": pems[0], "conf_path": "x"})
    assert (first["retcode"], first["data"], len(first["key_id"])) == (0, "save success", 64)
    again = world.ask("key/public/save", {"party_id": "10000", "key": pems[0]})
    assert again == {**first, "data": "update success"}
    assert query(world, "10000") == {"retcode": 0, "retmsg": "success", "data": pems[0], "key_id": first["key_id"]}
    assert world.ask("key/public/delete", {"party_id": "10000"}) == {"retcode": 0, "retmsg": "success"}
    assert query(world, 10000)["retcode"] == 101
    assert world.ask("key/public/delete", {"party_id": "10000"})["retcode"] == 101
    key = f"key {first['key_id']} of party 10000"
    assert world.record.lines == [f"{key} was saved", f"{key} was deleted"]


def test_no_key_is_replaced_unseen(world: World, pems: tuple[str, str]) -> None:
    """In FATE anybody overwrote any party's key."""
    old = world.ask("key/public/save", {"party_id": "10000", "key": pems[0]})["key_id"]
    said = world.ask("key/public/save", {"party_id": "10000", "key": pems[1]})
    assert (said["retcode"], f'has the key {old} here; to replace it, put "replaces"' in said["retmsg"]) == (100, True)
    wrong = world.ask("key/public/save", {"party_id": "10000", "key": pems[1], "replaces": "0" * 64})
    assert (wrong["retcode"], query(world, "10000")["data"]) == (100, pems[0])
    said = world.ask("key/public/save", {"party_id": "10000", "key": pems[1], "replaces": old})
    assert (said["data"], query(world, "10000")["data"]) == ("update success", pems[1])
    assert world.record.lines[-1] == f"key {said['key_id']} of party 10000 was saved, instead of {old}"
    said = world.ask("key/public/save", {"party_id": "10001", "key": pems[1], "replaces": old})
    assert (said["retcode"], "none to replace" in said["retmsg"]) == (100, True)


def test_no_private_key_is_handed_out(world: World, tmp_path: Path) -> None:
    """In FATE `key_name: private` did, to whoever asked."""
    write_private_key(tmp_path / "keys" / "site.pem", 3)
    for party_id in ("9999", "10000"):
        said = query(world, party_id, key_name="private")
        assert (said["retcode"], "key_name: 'private' is not given out" in str(said["retmsg"])) == (101, True)
    own = query(world, "9999", key_name="public")
    assert "BEGIN PUBLIC KEY" in str(own["data"])
    assert private_pem(3).splitlines()[1] not in str(own)


def test_the_own_key_is_not_for_clients_to_change(world: World, tmp_path: Path, pems: tuple[str, str]) -> None:
    assert query(world, "9999")["retcode"] == 101
    for path, more in (("save", {"key": pems[0]}), ("delete", {})):
        said = world.ask(f"key/public/{path}", {"party_id": "9999", **more})
        assert (said["retcode"], "9999 is this party itself" in said["retmsg"]) == (100, True)
    write_private_key(tmp_path / "keys" / "site.pem", 1)
    assert query(world, "9999")["data"] == pems[0]


@pytest.mark.parametrize(("more", "text"), [
    ({"key": 1}, "key: is not text"), ({"key": "k"}, "key: is not a public key in PEM"),
    ({"key": private_pem(1)}, "key: is a private key"), ({"party_id": "x"}, "party_id: 'x' is not a party id"),
    ({"replaces": "x"}, "replaces: 'x' is not a key id"), ({"replaces": 1}, "replaces: 1 is not a key id"),
])
def test_what_is_wrong_is_named(world: World, pems: tuple[str, str], more: dict[str, object], text: str) -> None:
    said = world.ask("key/public/save", {"party_id": "10000", "key": pems[0], **more})
    assert (said["retcode"], text in said["retmsg"]) == (101, True), said


@pytest.mark.parametrize("path", ["public/save", "query", "public/delete"])
def test_keys_are_for_the_own_clients(tmp_path: Path, pems: tuple[str, str], path: str) -> None:
    """Where clients sign, nobody else gets or changes any: also no other party, whatever it signs."""
    world = make_world(tmp_path, client_keys=ClientKeys("our-clients", "secret-of-9999"), site=SiteRule(is_on=True))
    key = write_private_key(tmp_path / "1.pem", 1)
    with world.store.transaction() as tx:
        tx.add_site_key(site_key("10000", key), 1)
    body = json.dumps({"party_id": "10000", "key": pems[1], "replaces": key.public.key_id}).encode()
    head = headers("10000", "9999")
    signed = SiteSignature(key, now_on_the_wall).fields("POST", f"/v1/key/{path}", head, body)
    said = world.client.post(f"/v1/key/{path}", data=body, headers=head | signed).get_json()
    assert (said["retcode"], "data" in said) == (109, False)
    with world.store.transaction() as tx:
        assert tx.site_key("10000") == site_key("10000", key)
