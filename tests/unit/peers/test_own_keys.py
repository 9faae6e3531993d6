"""The keys of this party: made once, certified by the root key, and the lists that other parties accept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import MESSAGE, RECORD, TLS, WITNESS, KeyList, key_id_of, read_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.key_files import locked
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import RSA, load_private_key, make_private_key
from fate_flow.peers.tls import load_tls_key, make_tls_key, public_pem
from tests.kit.site_keys import write_private_key


class Clock:
    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path, clock: Clock) -> OwnKeys:
    return OwnKeys("9999", tmp_path / "keys", tmp_path / "keys" / "message.pem", clock)


def newest(keys: OwnKeys) -> KeyList:
    return check_key_list(keys.signed_list())[0]


def test_everything_is_made_at_once_and_certified(keys: OwnKeys) -> None:
    made = keys.make()
    assert [path.name for path in made] == [
        "tls.pem", "message.pem", "record.pem", "witness.pem", "root.pem", "root.pub", "list.json"
    ]
    for name in ("message.pem", "tls.pem", "record.pem", "witness.pem", "root.pem"):
        assert keys.tls_file.with_name(name).stat().st_mode & 0o777 == 0o600
    found, root = check_key_list(keys.signed_list())
    assert (found.party_id, found.number, found.issued_at, root) == ("9999", 1, 1000, keys.root())
    assert root == load_private_key(keys.root_file).public
    assert found.valid(TLS, 1000) == (public_pem(load_tls_key(keys.tls_file).public_key()),)
    assert found.valid(MESSAGE, 1000) == (load_private_key(keys.message_file).public.pem,)
    assert found.valid(RECORD, 1000) == (load_private_key(keys.tls_file.with_name("record.pem")).public.pem,)
    assert len({key.pem for key in found.keys}) == 4
    with pytest.raises(Conflict, match=r"every key is there already.* fate_flow key announce --use USE"):
        keys.make()


def test_of_two_commands_at_once_one_is_refused_and_changes_nothing(keys: OwnKeys) -> None:
    keys.make()
    before = sorted((path.name, path.read_bytes()) for path in keys.tls_file.parent.iterdir())
    keys.tls_file.with_name("record.pem").rename(keys.tls_file.with_name("away"))
    changes: tuple[Callable[[], object], ...] = (keys.make, lambda: keys.announce(TLS, 1000), keys.certify)
    with locked(keys.tls_file.parent):
        for change in changes:
            with pytest.raises(Conflict, match=r"/keys/\.lock: another fate_flow key command changes the keys"):
                change()
        assert newest(keys).number == 1, "it can be read"
    keys.tls_file.with_name("away").rename(keys.tls_file.with_name("record.pem"))
    assert sorted((path.name, path.read_bytes()) for path in keys.tls_file.parent.iterdir()) == before
    keys.announce(TLS, 1000)
    assert newest(keys).number == 2, "the lock ends with the command"


def test_the_first_keys_are_made_once(keys: OwnKeys) -> None:
    keys.tls_file.parent.mkdir()
    with locked(keys.tls_file.parent), pytest.raises(Conflict, match="run this one again"):
        keys.make()
    assert [path.name for path in keys.tls_file.parent.iterdir()] == [".lock"]
    keys.make()


def test_without_a_folder_of_keys_none_is_made_by_a_refused_command(keys: OwnKeys) -> None:
    with pytest.raises(BadSettings, match="fate_flow key make -c CONF"):
        keys.certify()
    assert not keys.tls_file.parent.exists()


def test_the_key_of_an_older_release_becomes_the_message_key(tmp_path: Path, clock: Clock) -> None:
    old = write_private_key(tmp_path / "keys" / "site.pem", 1)
    keys = OwnKeys("9999", tmp_path / "keys", tmp_path / "keys" / "site.pem", clock)
    assert [path.name for path in keys.make(RSA)] == [
        "tls.pem", "record.pem", "witness.pem", "root.pem", "root.pub", "list.json"
    ]
    assert newest(keys).valid(MESSAGE, 1000) == (old.public.pem,)


def test_a_new_list_has_the_next_number_and_keeps_since_when_a_key_is_used(keys: OwnKeys, clock: Clock) -> None:
    keys.make()
    first = newest(keys)
    clock.now = 2000
    keys.tls_file.unlink()
    assert [path.name for path in keys.make()] == ["tls.pem", "list.json"]
    second = newest(keys)
    assert (second.number, second.issued_at) == (2, 2000)
    assert [(key.use, key.since) for key in second.keys] == [
        (TLS, 2000), (MESSAGE, 1000), (RECORD, 1000), (WITNESS, 1000)
    ]
    assert second.valid(TLS, 0) != first.valid(TLS, 0)
    assert read_key_list(keys.certify(number=9).content).number == 9
    with pytest.raises(BadRequest, match="number: 9 is too small, the next one is 10"):
        keys.certify(number=9)


def test_a_root_key_that_is_kept_elsewhere_signs_where_it_is(keys: OwnKeys, tmp_path: Path) -> None:
    keys.make()
    safe = keys.root_file.rename(tmp_path / "safe.pem")
    with pytest.raises(BadSettings, match=r"root.pem: is not here; .*certify -c CONF --root FILE"):
        keys.certify()
    assert read_key_list(keys.certify(safe).content).number == 2
    assert newest(keys).number == 2
    make_private_key(tmp_path / "other.pem")
    with pytest.raises(BadSettings, match=r"other.pem: is not the root key of this party, and no list announces it"):
        keys.certify(tmp_path / "other.pem")


def test_an_announced_root_key_may_sign_the_next_list(keys: OwnKeys, tmp_path: Path) -> None:
    keys.make()
    before = keys.root()
    after = make_private_key(tmp_path / "next.pem").public
    keys.certify(next_root=tmp_path / "next.pem")
    assert (newest(keys).next_root, keys.root()) == (after.pem, before)
    keys.certify(tmp_path / "next.pem")
    assert (check_key_list(keys.signed_list())[1], keys.root(), newest(keys).next_root) == (after, after, None)
    with pytest.raises(BadSettings, match=r"root.pem: is not the root key of this party"):
        keys.certify()


@pytest.mark.parametrize(("content", "text"), [
    (None, "there is no key list of this party: fate_flow key make"), (b"\xff", "cannot be read"),
    (b"{}", "key list: root_key is not text"),
])
def test_a_list_that_cannot_be_used_is_named(keys: OwnKeys, content: bytes | None, text: str) -> None:
    keys.make()
    keys.list_file.unlink()
    if content is not None:
        keys.list_file.write_bytes(content)
    with pytest.raises(BadSettings, match=f"list.json: {text}"):
        keys.signed_list()


def test_a_list_of_another_party_or_with_changes_is_not_used(keys: OwnKeys, tmp_path: Path, clock: Clock) -> None:
    keys.make()
    other = OwnKeys("10000", tmp_path / "keys", keys.message_file, clock)
    for use in (other.signed_list, other.certify):
        with pytest.raises(BadSettings, match=r"list.json: is the key list of party 9999"):
            use()
    text = keys.list_file.read_text().replace("9999", "9998")
    keys.list_file.write_text(text)
    with pytest.raises(BadSettings, match="its root key has not signed it"):
        keys.signed_list()


def test_without_keys_the_command_that_makes_them_is_named(keys: OwnKeys) -> None:
    for use in (keys.root, keys.signed_list, keys.certify):
        with pytest.raises(BadSettings, match="fate_flow key"):
            use()


def test_a_tls_key_is_for_its_user_alone_and_of_a_known_kind(tmp_path: Path) -> None:
    path = tmp_path / "tls.pem"
    make_tls_key(path)
    with pytest.raises(Conflict, match=r"tls.pem: is there already"):
        make_tls_key(path)
    path.chmod(0o604)
    with pytest.raises(BadSettings, match=r"tls.pem: is of mode 0604"):
        load_tls_key(path)
    path.write_text("x")
    path.chmod(0o600)
    with pytest.raises(BadSettings, match=r"tls.pem: is not a private key in PEM"):
        load_tls_key(path)
    make_private_key(tmp_path / "rsa.pem", RSA)
    with pytest.raises(BadSettings, match=r"rsa.pem: is a private key of another kind .*Ed25519, or ECDSA on P-256"):
        load_tls_key(tmp_path / "rsa.pem")


# ---------------------------------------------------------------------- announced keys

DAY = 24 * 3600 * 1000


def next_tls_file(keys: OwnKeys) -> Path:
    return keys.tls_file.with_name("tls.next.pem")


def tls_ids(keys: OwnKeys, now: int) -> list[str]:
    return [key_id_of(pem) for pem in newest(keys).valid(TLS, now)]


def test_an_announced_key_is_listed_at_once_and_used_when_its_time_has_come(keys: OwnKeys, clock: Clock) -> None:
    keys.make()
    own = own_tls("9999", keys.tls_file.parent, clock)
    first, leaf = own.key_id, own.leaf()
    keys.announce(TLS, 7 * DAY)
    found = newest(keys)
    present, following = [key for key in found.keys if key.use == TLS]
    assert (found.number, present.since, present.until) == (2, 1000, 1000 + 8 * DAY)
    assert (following.since, following.until) == (1000 + 7 * DAY, None)
    assert next_tls_file(keys).stat().st_mode & 0o777 == 0o600
    assert (own.leaf() is leaf, own.key_id) == (True, first)
    clock.now += 7 * DAY - 1
    assert own.leaf() is leaf
    clock.now += 1
    assert own.leaf() is not leaf
    assert own.key_id == key_id_of(following.pem)
    assert own_tls("9999", keys.tls_file.parent, clock).key_id == own.key_id, "also after a restart"
    assert tls_ids(keys, clock.now) == [first, own.key_id]
    assert tls_ids(keys, clock.now + DAY) == [own.key_id]


def test_a_key_is_announced_once_until_its_time_has_come(keys: OwnKeys, clock: Clock) -> None:
    keys.make()
    own = own_tls("9999", keys.tls_file.parent, clock)
    keys.announce(TLS, DAY)
    with pytest.raises(Conflict, match=r"tls.next.pem: the next tls key is announced already"):
        keys.announce(TLS, DAY)
    assert [(key.use, key.since) for key in read_key_list(keys.certify().content).keys] == [
        (TLS, 1000), (TLS, 1000 + DAY), (MESSAGE, 1000), (RECORD, 1000), (WITNESS, 1000)
    ]
    clock.now += DAY
    own.leaf()
    second = own.key_id
    keys.announce(TLS, DAY)
    assert tls_ids(keys, clock.now)[0] == second
    assert len(tls_ids(keys, clock.now)) == 2
    own.leaf()
    assert own.key_id == second
    clock.now += DAY
    own.leaf()
    assert own.key_id == tls_ids(keys, clock.now)[1]
    assert len(list(keys.tls_file.parent.glob("tls.*.pem"))) == 2, "the first key is kept, and the next one is there"


def test_nothing_is_announced_without_the_root_key_or_a_list(keys: OwnKeys, tmp_path: Path) -> None:
    with pytest.raises(BadSettings):
        keys.announce(TLS, DAY)
    keys.make()
    keys.root_file.rename(tmp_path / "safe.pem")
    with pytest.raises(BadSettings, match=r"root.pem: is not here"):
        keys.announce(TLS, DAY)
    assert not next_tls_file(keys).exists()
    keys.announce(TLS, DAY, tmp_path / "safe.pem")


def test_files_that_are_away_or_wrong_change_nothing(keys: OwnKeys, clock: Clock) -> None:
    keys.make()
    own = own_tls("9999", keys.tls_file.parent, clock)
    leaf = own.leaf()
    keys.announce(TLS, DAY)
    clock.now += DAY
    for content in ("", "{}", "x"):
        keys.list_file.write_text(content)
        assert own.leaf() is leaf
    keys.list_file.unlink()
    assert own.leaf() is leaf
