"""The clients of a party by name: what the file in the home says, and how it changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.core.access.client_roles import (
    ALL_ROLES,
    APPROVE,
    AUDIT,
    OPEN,
    OPERATE,
    READ,
    SUBMIT,
    ClientRole,
    names_of,
    roles_named,
    suffices,
)
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, NotFound
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import (
    OWNER,
    People,
    add_client,
    newest_of,
    people_file,
    read_people,
    renew_client,
    revoke_client,
    with_owner,
)
from fate_flow.settings.reader import load_settings

NOW = 1_700_000_000_000
OWN = ClientKeys("flow-123456", "secret-of-9999")


# ---------------------------------------------------------------------- client roles


@pytest.mark.parametrize(("held", "needed", "may"), [
    (SUBMIT, SUBMIT, True), (SUBMIT, SUBMIT | OPERATE, True), (SUBMIT | AUDIT, APPROVE, False),
    (READ, SUBMIT, False), (AUDIT, READ, True), (READ, READ, True), (READ, OPEN, True), (APPROVE, APPROVE, True),
])  # fmt: skip
def test_a_route_needs_one_of_its_roles_and_each_role_may_read(
    held: ClientRole, needed: ClientRole, may: bool
) -> None:
    assert suffices(held, needed) is may
    assert suffices(ALL_ROLES, needed)


def test_roles_have_names() -> None:
    assert names_of(ALL_ROLES) == ("read", "submit", "operate", "approve", "grant", "audit", "metrics")
    assert roles_named(["audit", "submit"]) == SUBMIT | AUDIT
    assert roles_named(names_of(ALL_ROLES)) == ALL_ROLES


@pytest.mark.parametrize(("names", "text"), [
    (["submit", "SUBMIT"], "'SUBMIT' is not a client role: read, submit"), ([7], "7 is not a client role"),
    (["all_roles"], "'all_roles'"), ([], "a client needs a role: read,"),
])  # fmt: skip
def test_a_role_that_is_none_is_refused(names: list[object], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        roles_named(names)


# ---------------------------------------------------------------------- changes


def test_a_client_is_found_by_its_key_from_the_next_look_on(tmp_path: Path) -> None:
    people = People(tmp_path, OWN)
    owner = people.client_with(OWN.app_key)
    assert owner is not None
    assert (owner.name, owner.roles, owner.secret_key) == (OWNER, ALL_ROLES, OWN.secret_key)
    anna = add_client(tmp_path, "anna", SUBMIT | APPROVE, NOW)
    assert people.client_with(anna.app_key) == anna == read_people(tmp_path)[0]
    assert (anna.name, anna.roles, anna.is_valid, len(anna.secret_key)) == ("anna", SUBMIT | APPROVE, True, 64)
    assert people.client_with("others") is None
    assert people_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert people_file(tmp_path).parent.stat().st_mode & 0o777 == 0o700


def test_no_secret_is_in_what_is_printed_for_debugging(tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", SUBMIT, NOW)
    assert anna.secret_key not in repr(anna)


def test_a_revoked_key_is_known_without_its_secret(tmp_path: Path) -> None:
    people = People(tmp_path, OWN)
    anna = add_client(tmp_path, "anna", SUBMIT, NOW)
    assert people.client_with(anna.app_key) == anna
    revoke_client(tmp_path, "anna", OWN, NOW + 5)
    found = people.client_with(anna.app_key)
    assert found is not None
    assert (found.name, found.is_valid, found.revoked, found.secret_key) == ("anna", False, NOW + 5, "")
    assert anna.secret_key not in people_file(tmp_path).read_text()
    with pytest.raises(Conflict, match="client anna has no key any more"):
        revoke_client(tmp_path, "anna", OWN, NOW + 6)
    with pytest.raises(NotFound, match="there is no client 'bob'"):
        revoke_client(tmp_path, "bob", OWN, NOW + 6)


def test_a_renewed_client_keeps_its_name_and_roles_and_not_its_key(tmp_path: Path) -> None:
    people = People(tmp_path, OWN)
    first = add_client(tmp_path, "anna", SUBMIT, NOW)
    second = renew_client(tmp_path, "anna", None, NOW + 1)
    third = renew_client(tmp_path, "anna", APPROVE, NOW + 2)
    assert (second.roles, third.roles) == (SUBMIT, APPROVE)
    keys = [first.app_key, second.app_key, third.app_key]
    found = [people.client_with(key) for key in keys]
    assert [one and (one.name, one.is_valid, one.revoked) for one in found] == [
        ("anna", False, NOW + 1), ("anna", False, NOW + 2), ("anna", True, 0),
    ]  # fmt: skip
    assert newest_of(read_people(tmp_path)) == (third,)
    revoke_client(tmp_path, "anna", OWN, NOW + 3)
    assert renew_client(tmp_path, "anna", None, NOW + 4).roles == APPROVE, "also after a revocation"
    with pytest.raises(NotFound, match="there is no client 'bob'"):
        renew_client(tmp_path, "bob", None, NOW)


def test_the_owner_is_revoked_by_key(tmp_path: Path) -> None:
    """Whoever stole the key has it no more; the key that is put in its place is good."""
    revoke_client(tmp_path, OWNER, OWN, NOW)
    stolen = People(tmp_path, OWN).client_with(OWN.app_key)
    assert stolen is not None
    assert (stolen.name, stolen.is_valid) == (OWNER, False)
    with pytest.raises(Conflict, match="client owner has no key any more"):
        revoke_client(tmp_path, OWNER, OWN, NOW)
    other = ClientKeys("flow-another", "another-secret")
    found = People(tmp_path, other).client_with(other.app_key)
    assert found is not None
    assert (found.name, found.is_valid) == (OWNER, True)
    assert newest_of(with_owner(read_people(tmp_path), other)) == (found,)
    revoke_client(tmp_path, OWNER, other, NOW)
    assert not any(one.is_valid for one in with_owner(read_people(tmp_path), other))
    with pytest.raises(Conflict, match="the key of owner is http_app_key in the configuration"):
        renew_client(tmp_path, OWNER, None, NOW)


@pytest.mark.parametrize("name", ["", "a", "-a", "Anna", "an na", "anna,bob", "../anna", "a" * 33, "anna\n", "änna"])
def test_a_name_is_short_and_plain(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match=r"NAME: .* is not 2 to 32 small letters"):
        add_client(tmp_path, name, SUBMIT, NOW)
    assert read_people(tmp_path) == ()


def test_a_name_never_means_somebody_else(tmp_path: Path) -> None:
    add_client(tmp_path, "anna", SUBMIT, NOW)
    revoke_client(tmp_path, "anna", OWN, NOW)
    for name in ("anna", OWNER):
        with pytest.raises(Conflict, match=f"there is a client {name} already"):
            add_client(tmp_path, name, SUBMIT, NOW)


def test_of_several_commands_at_once_none_is_lost(tmp_path: Path) -> None:
    names = [f"robot-{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: add_client(tmp_path, name, SUBMIT, NOW), names))
    assert {one.app_key for one in read_people(tmp_path)} == {one.app_key for one in made}
    left = [path.name for path in people_file(tmp_path).parent.iterdir()]
    assert sorted(left) == [".people.yaml.lock", "people.yaml"]


# ---------------------------------------------------------------------- a file that cannot be used

ENTRY = {"name": "anna", "app_key": "anna-1", "secret_key": "s", "roles": ["submit"], "made": 1, "revoked": 0}


def written(home: Path, text: str, mode: int = 0o600) -> Path:
    path = people_file(home)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(("text", "why"), [
    ("{", "is not YAML"), ("[]", "is not a mapping with the one key `keys`"), ("", "is not a mapping"),
    ("keys: {}", "a list"), ("keys: []\nmore: 1", "is not a mapping with the one key"),
    ("keys: [anna]", r"keys\[0\]: is not a mapping with the keys name, app_key"),
    *((yaml.safe_dump({"keys": [ENTRY, {**ENTRY, **change}]}), rf"keys\[1\]: {why}") for change, why in (
        ({"name": "Anna"}, "name is not what"), ({"app_key": ""}, "app_key is not"),
        ({"secret_key": 1}, "secret_key is"), ({"secret_key": ""}, "has no secret"),
        ({"roles": "submit"}, "roles is not"), ({"roles": []}, "roles: a client needs"),
        ({"roles": ["root"]}, "roles: 'root'"), ({"made": "today"}, "made is not"),
        ({"revoked": True}, "revoked is not"), ({"more": 1}, "is not a mapping with the keys"),
    )),
])  # fmt: skip
def test_a_file_that_is_wrong_is_not_half_believed(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, text)
    for read in (lambda: read_people(tmp_path), lambda: People(tmp_path, OWN).client_with(OWN.app_key)):
        with pytest.raises(BadSettings, match=f"{path}: .*{why}"):
            read()


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    written(tmp_path, yaml.safe_dump({"keys": [ENTRY]}), mode=0o640)
    with pytest.raises(BadSettings, match="is of mode 0640"):
        read_people(tmp_path)


def test_a_server_does_not_start_with_a_file_that_it_cannot_use(tmp_path: Path) -> None:
    conf = tmp_path / "conf" / "service_conf.yaml"
    conf.parent.mkdir()
    conf.write_text('party_id: "9999"\n', encoding="utf-8")
    written(tmp_path, "{")
    with pytest.raises(BadSettings, match=r"people\.yaml: is not YAML"):
        load_settings(conf)


def changed_in_place(path: Path, document: dict[str, Any]) -> None:
    """An editor that does not make a new file: the size is the same, and so is the time of the last change."""
    before = path.stat()
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [changed_in_place, lambda path, _: path.unlink()])
def test_a_file_that_a_hand_has_changed_is_read_again(
    tmp_path: Path, change: Callable[[Path, dict[str, Any]], None]
) -> None:
    people = People(tmp_path, OWN)
    path = written(tmp_path, yaml.safe_dump({"keys": [ENTRY]}))
    assert people.client_with("anna-1") is not None
    change(path, {"keys": [{**ENTRY, "app_key": "anna-2"}]})
    assert people.client_with("anna-1") is None
