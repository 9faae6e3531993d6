"""An announced key takes the place of the present one when its time has come, and nothing else changes a key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from fate_flow.core.access.key_list import MESSAGE, RECORD, TLS, USES, WITNESS, key_id_of, read_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers import own_keys
from fate_flow.peers.key_changes import message_key, own_signature, own_tls
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.signature import INPUT, SIGNATURE, SiteSignature, read_signature_input
from fate_flow.peers.signed_answers import SignedAnswers
from fate_flow.peers.site_key import RSA, load_private_key, make_private_key
from fate_flow.peers.tls import load_tls_key, make_tls_key, public_pem
from tests.kit.site_keys import write_private_key

DAY = 24 * 3600 * 1000


class Clock:
    now = 1000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(tmp_path: Path, clock: Clock) -> OwnKeys:
    found = OwnKeys("9999", tmp_path / "keys", tmp_path / "keys" / "message.pem", clock)
    found.make()
    return found


def folder_of(keys: OwnKeys) -> Path:
    return keys.list_file.parent


def file_of(keys: OwnKeys, use: str, number: str = "") -> Path:
    return folder_of(keys) / f"{use}{number}.pem"


def pem_in(file: Path) -> str:
    """The public part of the private key in a file."""
    return public_pem(load_tls_key(file).public_key()) if "tls" in file.name else load_private_key(file).public.pem


def listed(keys: OwnKeys, use: str) -> list[tuple[str, int, int | None]]:
    """The keys of a use on the newest list, with their times."""
    return [(key.pem, key.since, key.until) for key in check_key_list(keys.signed_list())[0].keys if key.use == use]


def signed_with(signature: SiteSignature) -> str:
    """The id of the key that signs a request at this moment."""
    signed = signature.fields("POST", "/v1/x", {"SRC-PARTY-ID": "9999", "DEST-PARTY-ID": "10000"}, b"")
    found = read_signature_input(signed[INPUT], signed[SIGNATURE])
    assert found is not None
    assert found.key_id == signature.key.public.key_id
    return found.key_id


def test_an_announced_message_key_signs_when_its_time_has_come(keys: OwnKeys, clock: Clock) -> None:
    own = own_signature(folder_of(keys), keys.message_file, clock)
    asking = own.expecting(SignedAnswers({"10000"}, lambda _: ()))
    present = signed_with(own)
    keys.announce(MESSAGE, 7 * DAY)
    [(old, _, until), (new, since, _)] = listed(keys, MESSAGE)
    assert (since, until) == (1000 + 7 * DAY, 1000 + 8 * DAY)
    assert listed(keys, TLS)[0][2] is None, "the other keys stay"
    clock.now += 7 * DAY - 1
    assert [signed_with(one) for one in (own, asking)] == [present, present]
    clock.now += 1
    assert [signed_with(one) for one in (own, asking)] == [key_id_of(new)] * 2
    assert message_key(folder_of(keys), keys.message_file, clock.now).public.pem == new
    assert signed_with(own_signature(folder_of(keys), keys.message_file, clock)) == key_id_of(new), "after a restart"
    found = check_key_list(keys.signed_list())[0]
    assert found.valid(MESSAGE, clock.now) == (old, new), "others accept both for a day"
    assert found.valid(MESSAGE, clock.now + DAY) == (new,)


@pytest.mark.parametrize("use", USES)
def test_each_key_can_be_announced_again_and_again(keys: OwnKeys, clock: Clock, use: str) -> None:
    seen = [listed(keys, use)[0][0]]
    for _ in range(3):
        keys.announce(use, DAY)
        [(present, _, _), (following, _, _)] = listed(keys, use)
        assert present == seen[-1] == pem_in(file_of(keys, use))
        assert following == pem_in(file_of(keys, use, ".next"))
        seen.append(following)
        clock.now += DAY
    assert len(set(seen)) == 4
    kept = [path for path in folder_of(keys).glob(f"{use}.*.pem") if path.name != f"{use}.next.pem"]
    assert sorted(map(pem_in, kept)) == sorted(seen[:2]), "no private key is lost"


@pytest.mark.long
def test_a_message_key_is_announced_with_its_kind_and_beside_its_file(tmp_path: Path, clock: Clock) -> None:
    keys = OwnKeys("9999", tmp_path / "keys", tmp_path / "keys" / "site.pem", clock)
    make_private_key(keys.message_file, RSA)
    keys.make()
    keys.announce(MESSAGE, DAY)
    following = load_private_key(tmp_path / "keys" / "site.next.pem").public
    assert following.kind == RSA
    clock.now += DAY
    keys.announce(MESSAGE, DAY)
    assert load_private_key(keys.message_file).public == following


@pytest.mark.parametrize("use", USES)
def test_an_announcement_that_fails_changes_nothing_and_can_be_repeated(
    keys: OwnKeys, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    before = keys.list_file.read_text()

    def fail(path: Path, _text: str) -> None:
        raise BadSettings(f"{path}: cannot be written: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(own_keys, "write_public", fail)
        with pytest.raises(BadSettings, match="No space left"):
            keys.announce(use, DAY)
    assert not file_of(keys, use, ".next").exists()
    assert keys.list_file.read_text() == before
    keys.announce(use, DAY)
    assert len(listed(keys, use)) == 2


@pytest.mark.parametrize(("use", "make"), [
    (TLS, make_tls_key), (MESSAGE, make_private_key), (RECORD, make_private_key),
    (WITNESS, make_private_key),
])
def test_a_next_key_that_nobody_knows_is_not_listed_before_it_is_announced(
    keys: OwnKeys, clock: Clock, use: str, make: Callable[[Path], object]
) -> None:
    make(file_of(keys, use, ".next"))        # a command has ended before it wrote a list
    keys.certify()
    assert [pem for pem, _, _ in listed(keys, use)] == [pem_in(file_of(keys, use))]
    keys.announce(use, DAY)
    assert listed(keys, use)[1] == (pem_in(file_of(keys, use, ".next")), 1000 + DAY, None)


@pytest.mark.parametrize("write", [
    lambda keys: keys.announce(MESSAGE, 2**53), lambda keys: keys.announce(TLS, -2000),
    lambda keys: keys.certify(number=2**53),
], ids=["late", "early", "number"])  # fmt: skip
def test_no_list_is_written_that_nobody_can_read(keys: OwnKeys, write: Callable[[OwnKeys], object]) -> None:
    before = keys.list_file.read_text()
    with pytest.raises(BadRequest, match=r"number: 9007199254740992 is too large|is not a whole number"):
        write(keys)
    assert keys.list_file.read_text() == before
    assert not [*folder_of(keys).glob("*.next.pem")]
    assert read_key_list(keys.certify(number=2**53 - 1).content).number == 2**53 - 1
    with pytest.raises(BadRequest, match="number: 9007199254740992 is too large; the largest one is 9007199254740991"):
        keys.certify()


def test_without_the_next_key_the_present_one_has_no_end(keys: OwnKeys) -> None:
    keys.announce(MESSAGE, DAY)
    file_of(keys, MESSAGE, ".next").unlink()
    keys.certify()
    assert listed(keys, MESSAGE) == [(pem_in(keys.message_file), 1000, None)]


def test_a_home_of_an_earlier_release_gets_a_key_for_the_record(keys: OwnKeys) -> None:
    file_of(keys, RECORD).unlink()
    keys.certify()
    assert listed(keys, RECORD) == []
    assert [path.name for path in keys.make()] == ["record.pem", "list.json"]
    assert [pem for pem, _, _ in listed(keys, RECORD)] == [pem_in(file_of(keys, RECORD))]


def test_a_key_that_cannot_be_read_is_logged_once_and_read_again_once_it_was_repaired(
    keys: OwnKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    signature = own_signature(folder_of(keys), keys.message_file, clock)
    tls = own_tls("9999", folder_of(keys), clock)
    for use in (MESSAGE, TLS):
        keys.announce(use, DAY)
    for use in (MESSAGE, TLS):
        file_of(keys, use, ".next").chmod(0o644)
    before, leaf = signed_with(signature), tls.leaf()
    clock.now += DAY
    for _ in range(3):
        assert (signed_with(signature), tls.leaf()) == (before, leaf)
    for use in (MESSAGE, TLS):
        text = f"the {use} key of this party stays as it is: {file_of(keys, use, '.next')}: is of mode 0644"
        assert caplog.text.count(text) == 1
        file_of(keys, use, ".next").chmod(0o600)
    assert signed_with(signature) == key_id_of(pem_in(file_of(keys, MESSAGE, ".next")))
    tls.leaf()
    assert tls.key_id == key_id_of(pem_in(file_of(keys, TLS, ".next")))


def test_a_list_that_is_away_or_wrong_is_logged_once(
    keys: OwnKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    signature = own_signature(folder_of(keys), keys.message_file, clock)
    before = signed_with(signature)
    keys.list_file.unlink()
    for _ in range(2):
        assert signed_with(signature) == before
    assert caplog.text.count("list.json is not there any more") == 1
    keys.list_file.write_text("{}")
    for _ in range(2):
        assert signed_with(signature) == before
    assert caplog.text.count("list.json: key list: root_key is not text") == 1


def test_a_list_with_another_key_than_the_one_that_is_here_is_logged(
    keys: OwnKeys, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    keys.message_file.unlink()
    key = write_private_key(keys.message_file, 1)
    with caplog.at_level(logging.ERROR):
        signature = own_signature(folder_of(keys), keys.message_file, clock)
        assert signed_with(signature) == key.public.key_id
    assert "which is not in" in caplog.text
    assert "fate_flow key certify" in caplog.text
    keys.certify()
    caplog.clear()
    assert signed_with(signature) == key.public.key_id
    assert caplog.text == ""


def test_a_home_without_a_list_signs_with_the_key_in_its_file(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    key = write_private_key(tmp_path / "site.pem", 1)
    assert signed_with(own_signature(tmp_path, tmp_path / "site.pem", clock)) == key.public.key_id
    assert caplog.text == ""
