"""Two parties join, and everything that an attacker with or without the text of the invitation may try."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from fate_flow.core.access.invitation import LIFE_MS, Invitation
from fate_flow.core.access.joining import SavedList, read_introduction, read_sealed
from fate_flow.core.model.errors import BadRequest, Conflict, FlowError, PermissionDenied
from fate_flow.peers.joining import Joining
from fate_flow.peers.spoken.phrase import phrase_of
from fate_flow.peers.tls import TlsPrivateKey
from tests.kit.peers.handshakes import tls_party
from tests.kit.peers.joining_world import ADDRESSES, INVITED, INVITER, SECRET, JoiningWorld
from tests.kit.site_keys import private_key
from tests.kit.tls import Authority

DAY = 24 * 3600 * 1000


@pytest.fixture
def world(tmp_path: Path) -> JoiningWorld:
    return JoiningWorld(tmp_path)


@pytest.fixture
def invitation(world: JoiningWorld) -> Invitation:
    return world.invite()


def refused(world: JoiningWorld, message: str) -> str:
    """Why the inviting party does not let this message join; nothing is saved."""
    with pytest.raises((PermissionDenied, BadRequest)) as error:
        world.answer(message)
    assert world.saved == []
    return error.value.message


def changed(text: str, **keys: object) -> str:
    """A sealed message with another content and the same code."""
    sealed = json.loads(text)
    content = {**json.loads(sealed["message"]), **keys}
    return json.dumps({**sealed, "message": json.dumps(content)})


# ---------------------------------------------------------------------- honest parties


def test_both_parties_save_the_keys_of_the_other_one_and_show_the_same_phrase(
    world: JoiningWorld, invitation: Invitation
) -> None:
    world.ahead = 2000
    side = world.joining(invitation)
    found = side.check(world.answer(side.message), world.leaf, "bob")
    [saved] = world.saved
    assert (saved.party.party_id, saved.party.address, saved.party.joined_by) == (INVITED, ADDRESSES[INVITED], "ann")
    assert (found.party.party_id, found.party.address, found.party.joined_by) == (INVITER, ADDRESSES[INVITER], "bob")
    assert (saved.root_id, found.root_id) == tuple(world.roots[one].public.key_id for one in (INVITED, INVITER))
    assert (saved.signed, found.signed) == (world.list_of(INVITED), world.list_of(INVITER))
    assert (saved.party.clock_offset, found.party.clock_offset) == (2000, -2000)
    assert saved.party.phrase == found.party.phrase
    assert len(found.party.phrase.split()) == 6
    kept = world.invitations.find(invitation.id)
    assert kept is not None
    assert kept.joined == saved.party


def test_the_phrase_is_another_one_each_time(world: JoiningWorld) -> None:
    for number in range(2):
        side = world.joining(world.invite(bytes([number]) * 16))
        side.check(world.answer(side.message), world.leaf, "bob")
    assert world.saved[0].party.phrase != world.saved[1].party.phrase


def test_a_phrase_stands_for_the_first_66_bits() -> None:
    assert phrase_of(bytes(32)) == " ".join(["abandon"] * 6)
    assert phrase_of(b"\xff" * 32) == " ".join(["zoo"] * 6)
    first = (1 << 255).to_bytes(32, "big")
    last = (1 << (256 - 66)).to_bytes(32, "big")
    assert phrase_of(first).split()[1:] == ["abandon"] * 5
    assert phrase_of(last) == "abandon abandon abandon abandon abandon ability"
    assert phrase_of((1 << (256 - 67)).to_bytes(32, "big")) == phrase_of(bytes(32))


# ---------------------------------------------------------------------- without the text


def test_a_guessed_secret_costs_a_try_and_the_sixth_try_is_refused_even_with_the_right_one(
    world: JoiningWorld, invitation: Invitation
) -> None:
    texts = [refused(world, world.message(invitation, bytes([guess]) * 16)) for guess in range(5)]
    assert texts[0] == "secret: the message was not made with the secret of this invitation; 4 tries are left"
    assert "cannot be used any more" in texts[4]
    assert "no invitation with this secret is open" in refused(world, world.joining(invitation).message)


def test_guesses_at_the_same_time_get_no_more_tries(world: JoiningWorld, invitation: Invitation) -> None:
    def guess(number: int) -> str:
        return refused(world, world.message(invitation, bytes([number]) * 16))

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(guess, range(20)))
    assert sum("was not made with the secret" in text for text in texts) == 5


def test_an_unknown_invitation_is_refused_like_a_used_one(world: JoiningWorld, invitation: Invitation) -> None:
    other = Invitation(ADDRESSES[INVITER], INVITER, invitation.root_id, INVITED, b"x" * 16, world.now + LIFE_MS)
    unknown = refused(world, world.joining(other).message)
    side = world.joining(invitation)
    world.answer(side.message)
    world.saved.clear()
    assert refused(world, side.message) == unknown


@pytest.mark.parametrize("keys", [
    {"party_id": "10001"}, {"address": "https://10.6.6.6:9390"}, {"nonce": "cd" * 32}, {"clock": 7}, {"key_list": ""},
])  # fmt: skip
def test_a_message_that_was_changed_on_its_way_is_refused(
    world: JoiningWorld, invitation: Invitation, keys: dict[str, object]
) -> None:
    if "key_list" in keys:
        keys = {"key_list": world.list_of(INVITED, root=private_key(103)).text()}
    text = refused(world, changed(world.joining(invitation).message, **keys))
    assert "secret: the message was not made with the secret of this invitation" in text


def test_an_answer_of_somebody_without_the_secret_is_refused(world: JoiningWorld, invitation: Invitation) -> None:
    side = world.joining(invitation)
    answer = world.answer(side.message)
    own = world.list_of(INVITER, tls=tls_party(INVITER), root=private_key(103)).text()
    for forged in (changed(answer, key_list=own), changed(answer, party_id="10001"), side.message):
        with pytest.raises(PermissionDenied, match="secret: whoever answers does not know the secret"):
            side.check(forged, world.leaf, "bob")


def test_somebody_in_between_who_passes_both_messages_on_is_noticed(
    world: JoiningWorld, invitation: Invitation
) -> None:
    """The certificate on the connection of the joining party is then not the one that the inviting party has shown."""
    side = world.joining(invitation)
    answer = world.answer(side.message)
    between = tls_party(INVITER, clock=lambda: world.now)          # a key of its own under that name
    for leaf in (between.own.leaf().certificate, world.tls[INVITED].own.leaf().certificate, None, b"x"):
        with pytest.raises(PermissionDenied, match="key: somebody in between has answered"):
            side.check(answer, leaf, "bob")


def test_an_answer_to_another_message_is_refused(world: JoiningWorld) -> None:
    first = world.joining(world.invite())
    answer = world.answer(first.message)
    second = world.joining(world.invite())
    with pytest.raises(PermissionDenied, match="secret: whoever answers"):
        second.check(answer, world.leaf, "bob")


# ---------------------------------------------------------------------- again, late, and for others


def test_a_message_that_is_sent_again_is_refused(world: JoiningWorld, invitation: Invitation) -> None:
    side = world.joining(invitation)
    world.answer(side.message)
    world.saved.clear()
    assert "it was used" in refused(world, side.message)
    assert "it was used" in refused(world, world.joining(invitation).message)


def test_two_messages_at_the_same_time_are_one_use(world: JoiningWorld, invitation: Invitation) -> None:
    messages = [world.joining(invitation).message for _ in range(8)]

    def let_in(message: str) -> bool:
        try:
            world.answer(message)
        except PermissionDenied:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(let_in, messages)) == 1
    assert len(world.saved) == 1


def test_an_invitation_that_is_over_is_refused(world: JoiningWorld, invitation: Invitation) -> None:
    world.now += LIFE_MS
    assert "is over" in refused(world, world.joining(invitation).message)


def test_another_party_cannot_use_the_text(world: JoiningWorld) -> None:
    invitation = world.invite(invited="10001")
    with pytest.raises(BadRequest, match="name: the invitation is for party 10001; this is party 10000"):
        world.joining(invitation)
    text = refused(world, world.message(invitation, SECRET))
    assert text == "name: the invitation is for party 10001, not for 10000; 4 tries are left"


def test_the_party_that_invites_does_not_join_itself(world: JoiningWorld) -> None:
    with pytest.raises(BadRequest, match="is one of this party itself"):
        world.joining(Invitation(ADDRESSES[INVITED], INVITED, "ab" * 32, INVITED, SECRET, 1))


def test_a_message_for_another_inviting_party_is_refused(world: JoiningWorld, invitation: Invitation) -> None:
    for keys in ({"inviter": "10001"}, {"root_id": "cd" * 32}):
        assert "was not made with the secret" in refused(world, world.message(invitation, **keys))


# ---------------------------------------------------------------------- keys


def test_key_lists_of_others_or_with_a_wrong_signature_are_refused(world: JoiningWorld, invitation: Invitation) -> None:
    foreign = world.list_of(INVITER)
    assert refused(world, world.message(invitation, keys=foreign)).startswith("key: the key list is that of party 9999")
    own = world.list_of(INVITED)
    forged = type(own)(own.root_key, own.content.replace('"number": 1', '"number": 2'), own.signature)
    text = refused(world, world.message(invitation, keys=forged))
    assert text.startswith("key: key list: its root key has not signed")
    assert world.invitations.are_open(), "who knows the secret may try again"


def test_an_answer_with_another_root_key_than_in_the_text_is_refused(world: JoiningWorld) -> None:
    """Also by whoever knows the secret: the fingerprint came with the text."""
    invitation = world.invite()
    side = world.joining(invitation)
    answer = world.answer(side.message)
    of_other = Invitation(ADDRESSES[INVITER], INVITER, "cd" * 32, INVITED, SECRET, invitation.until)
    misled = world.joining(of_other)
    assert "was not made with the secret" in _why(world, misled.message)
    with pytest.raises(PermissionDenied):
        misled.check(answer, world.leaf, "bob")


def _why(world: JoiningWorld, message: str) -> str:
    world.saved.clear()
    world.invite()
    return refused(world, message)


def test_a_server_whose_list_lacks_the_key_it_shows_says_so(world: JoiningWorld, invitation: Invitation) -> None:
    with pytest.raises(Conflict, match="key: the inviting server uses a tls key that its key list does not have"):
        world.answer(world.joining(invitation).message, tls_party(INVITER))
    world.roots[INVITER] = private_key(103)
    with pytest.raises(Conflict, match="key: the root key of the inviting party is another one by now"):
        world.answer(world.joining(invitation).message)
    assert (world.saved, world.invitations.are_open()) == ([], True)


@pytest.mark.parametrize(("number", "what"), [
    (3, "number 1"), (1, "another list with the same number"),
])  # fmt: skip
def test_a_party_whose_home_is_older_than_its_list_elsewhere_hears_it_before_anything_is_saved(
    world: JoiningWorld, invitation: Invitation, number: int, what: str
) -> None:
    saved = SavedList.of(number, world.list_of(INVITER, tls=tls_party(INVITER), number=number))
    with pytest.raises(Conflict) as error:
        world.answer(world.joining(invitation, saved=saved).message)
    assert error.value.message == (
        f"key: party 10000 has saved the key list of party 9999 with number {number}, and that party has {what} now: "
        f"perhaps its home was restored from an older copy. There: fate_flow key certify --number {number + 1}; then "
        "join again. Nothing was saved, and the invitation is still open"
    )
    assert world.saved == []
    older = SavedList.of(1, world.list_of(INVITER))
    world.answer(world.joining(invitation, saved=older).message)
    assert len(world.saved) == 1, "the same list is here, and the invitation was open"


def test_what_cannot_be_saved_uses_nothing_up(world: JoiningWorld, invitation: Invitation) -> None:
    def save(_: Joining) -> None:
        raise Conflict("party 10000 was revoked here")

    key = world.tls[INVITER].peer.key_id
    with pytest.raises(Conflict, match="was revoked here"):
        world.inviting.answer(world.joining(invitation).message, key, save)
    side = world.joining(invitation)
    side.check(world.answer(side.message), world.leaf, "bob")


def test_a_clock_that_is_far_off_is_named(world: JoiningWorld, invitation: Invitation) -> None:
    for days in (40, 2, -2):
        world.ahead = days * DAY
        assert re.match(
            r"clock: party 10000 says \d{4}-.*Z, and the clock here \d{4}-.*Z: correct the wrong one",
            refused(world, world.joining(invitation).message),
        )
    world.ahead = DAY - 1000
    side = world.joining(invitation)
    answer = world.answer(side.message)        # and nothing that was refused before has used the invitation up
    world.ahead = 40 * DAY
    with pytest.raises(PermissionDenied, match="clock: the certificate of party 9999 is valid from"):
        side.check(answer, world.leaf, "bob")


def test_an_inviting_party_may_show_a_certificate_of_its_company(world: JoiningWorld, tmp_path: Path) -> None:
    """Its key list has the key that is in the certificate; who made it does not matter."""
    company = Authority(tmp_path)

    def leaf_with(key: TlsPrivateKey) -> bytes:
        return load_pem_x509_certificate(company.certificate("a.b", key.public_key())).public_bytes(Encoding.DER)

    side = world.joining(world.invite())
    answer = world.answer(side.message)
    with pytest.raises(PermissionDenied, match="key: somebody in between has answered"):
        side.check(answer, leaf_with(tls_party(INVITER).key), "bob")
    assert side.check(answer, leaf_with(world.tls[INVITER].key), "bob").party.party_id == INVITER


def test_a_clock_that_no_calendar_has_is_refused(world: JoiningWorld, invitation: Invitation) -> None:
    world.ahead = 2**53 - 1 - world.now
    assert "says a time that no calendar has" in refused(world, world.joining(invitation).message)


# ---------------------------------------------------------------------- what is no message


@pytest.mark.parametrize("text", [
    "", "x", "[]", "{}", "[" * 100_000, '{"message": 1, "code": "x"}', '{"message": "{}", "code": "' + "ab" * 32 + '"}',
    '{"message": "{}", "message": "{}", "code": "' + "ab" * 32 + '"}', "x" * 70_000,
    '{"message": "\\u00e9", "code": "' + "ab" * 32 + '"}',
])  # fmt: skip
def test_what_is_no_message_is_refused(world: JoiningWorld, invitation: Invitation, text: str) -> None:
    assert refused(world, text).startswith("join: ")
    kept = world.invitations.find(invitation.id)
    assert kept is not None
    assert kept.tries == 0


@pytest.mark.parametrize("keys", [
    {"version": 2}, {"more": 1}, {"nonce": "AB" * 32}, {"nonce": "ab"}, {"about": "../../etc/passwd"}, {"about": None},
    {"clock": -1}, {"clock": True}, {"clock": 1.5}, {"clock": 2**53}, {"address": "http://a:1"}, {"party_id": "x"},
    {"key_list": 1}, {"key_list": "{}"}, {"saved_list": []}, {"saved_list": {"number": 1}},
    {"saved_list": {"number": 0, "digest": "ab" * 32}}, {"saved_list": {"number": 1, "digest": "AB" * 32}},
])  # fmt: skip
def test_a_message_of_another_form_is_refused(
    world: JoiningWorld, invitation: Invitation, keys: dict[str, object]
) -> None:
    text = changed(world.joining(invitation).message, **keys)
    with pytest.raises(FlowError) as error:
        read_introduction(read_sealed(text))
    assert isinstance(error.value, BadRequest)
    refused(world, text)


def test_no_message_has_the_secret(world: JoiningWorld, invitation: Invitation) -> None:
    side = world.joining(invitation)
    both = side.message + world.answer(side.message)
    assert SECRET.hex() not in both
    assert invitation.text() not in both
