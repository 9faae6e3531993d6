"""The files of invitations: one use, five tries, an hour, and nobody else's eyes."""

from __future__ import annotations

import fcntl
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from fate_flow.core.access.invitation import LIFE_MS, MOST_TRIES
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.model.errors import BadSettings, Conflict, PermissionDenied
from fate_flow.peers.invitations import InvitationState
from tests.kit.peers.joining_world import SECRET, JoiningWorld

JOINED = JoinedParty("10000", "https://10.0.0.2:9390", "zoo zoo zoo zoo zoo zoo", 1, "ann", 0)


@pytest.fixture
def world(tmp_path: Path) -> JoiningWorld:
    return JoiningWorld(tmp_path)


def test_only_its_user_reads_the_file_of_an_invitation(world: JoiningWorld) -> None:
    invitation = world.invite()
    folder = world.folder / "invitations"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert SECRET.hex() not in " ".join(path.name for path in folder.iterdir())
    kept = world.invitations.find(invitation.id)
    assert kept is not None
    assert (kept.by, kept.invited, kept.tries, kept.state) == ("ann", "10000", 0, InvitationState.OPEN)


def test_an_invitation_is_used_once_and_then_has_no_secret(world: JoiningWorld) -> None:
    invitation = world.invite()
    assert world.invitations.are_open()
    with world.invitations.held(invitation.id) as held, held.used(JOINED):
        pass
    kept = world.invitations.find(invitation.id)
    assert kept is not None
    assert (kept.state, kept.joined, kept.text) == (InvitationState.USED, JOINED, "")
    assert not world.invitations.are_open()
    with pytest.raises(PermissionDenied, match="no invitation with this secret is open here"), \
            world.invitations.held(invitation.id):
        pass


def test_an_invitation_is_open_again_if_what_follows_cannot_be_stored(world: JoiningWorld) -> None:
    invitation = world.invite()

    def store() -> None:
        during = world.invitations.find(invitation.id)
        assert during is not None
        assert during.state is InvitationState.USED, "it is used before anything is stored"
        raise Conflict("another root key")

    with pytest.raises(Conflict), world.invitations.held(invitation.id) as held, held.used(JOINED):
        store()
    assert world.invitations.are_open()


def test_the_fifth_wrong_try_ends_it(world: JoiningWorld) -> None:
    invitation = world.invite()
    for left in range(MOST_TRIES - 1, -1, -1):
        with world.invitations.held(invitation.id) as held:
            text = held.fail("wrong").message
        assert text == (f"wrong; {left} tries are left" if left else "wrong; the invitation cannot be used any more")
    with pytest.raises(PermissionDenied), world.invitations.held(invitation.id):
        pass
    kept = world.invitations.find(invitation.id)
    assert kept is not None
    assert (kept.state, kept.tries, kept.text) == (InvitationState.SPENT, MOST_TRIES, "")


def test_tries_at_the_same_time_are_all_counted(world: JoiningWorld) -> None:
    invitation = world.invite()

    def try_it(_: int) -> bool:
        try:
            with world.invitations.held(invitation.id) as held:
                held.fail("wrong")
        except PermissionDenied:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_it, range(24))) == MOST_TRIES


def test_it_ends_after_an_hour(world: JoiningWorld) -> None:
    invitation = world.invite()
    world.now += LIFE_MS - 1
    assert world.invitations.are_open()
    world.now += 1
    assert not world.invitations.are_open()
    with pytest.raises(PermissionDenied), world.invitations.held(invitation.id):
        pass


def test_an_expired_one_has_no_secret_any_more(world: JoiningWorld) -> None:
    first, second = world.invite(), world.invite(b"o" * 16, "10001")
    world.now += LIFE_MS
    assert not world.invitations.are_open(), "the server asks this twice a second"
    third = world.invite(b"n" * 16, "10002")
    found = [kept for one in (first, second, third) if (kept := world.invitations.find(one.id))]
    assert [(kept.state.value, bool(kept.text)) for kept in found] == [
        ("expired", False), ("expired", False), ("open", True)
    ]


@pytest.mark.parametrize("next_step", ["outcome", "add"])
def test_commands_remove_expired_secrets_too(world: JoiningWorld, next_step: str) -> None:
    invitation = world.invite()
    world.now += LIFE_MS
    if next_step == "add":
        world.invite(b"o" * 16, "10001")
    else:
        kept = world.invitations.outcome(invitation.id)
        assert kept is not None
        assert kept.state is InvitationState.EXPIRED
    assert SECRET not in b"".join(path.read_bytes() for path in (world.folder / "invitations").iterdir())
    assert invitation.text() not in (world.folder / "invitations" / f"{invitation.id}.json").read_text()


def test_who_asks_whether_one_is_open_never_waits(world: JoiningWorld) -> None:
    first, second = world.invite(), world.invite(b"o" * 16, "10001")
    with world.invitations.held(second.id):
        world.now += LIFE_MS
        assert not world.invitations.are_open()
    assert not world.invitations.are_open()
    assert [kept.state.value for one in (first, second) if (kept := world.invitations.find(one.id))] == ["expired"] * 2


def test_the_outcome_is_known_once_what_follows_was_stored(
    world: JoiningWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    invitation = world.invite()
    use, lock = ExitStack(), fcntl.flock
    held = use.enter_context(world.invitations.held(invitation.id))
    use.enter_context(held.used(JOINED))

    def wait(file: int, flags: int) -> None:
        """Whoever uses the invitation fails while the other one waits for the lock."""
        monkeypatch.undo()
        use.__exit__(Conflict, Conflict("another root key"), None)
        lock(file, flags)

    monkeypatch.setattr(fcntl, "flock", wait)
    kept = world.invitations.outcome(invitation.id)
    assert kept is not None
    assert (kept.state, kept.joined) == (InvitationState.OPEN, None)


def test_a_newer_one_for_the_same_party_withdraws_it(world: JoiningWorld) -> None:
    first, other, second = world.invite(), world.invite(b"o" * 16, "10001"), world.invite(b"n" * 16)
    states = [kept.state.value for one in (first, other, second) if (kept := world.invitations.find(one.id))]
    assert states == ["withdrawn", "open", "open"]
    world.invitations.withdraw(second.id)
    with pytest.raises(PermissionDenied), world.invitations.held(second.id):
        pass


def test_old_ones_are_forgotten(world: JoiningWorld) -> None:
    invitation = world.invite()
    world.now += 26 * LIFE_MS
    world.invite(b"n" * 16, "10001")
    assert world.invitations.find(invitation.id) is None


def test_nothing_is_open_before_the_first_one(world: JoiningWorld) -> None:
    assert not world.invitations.are_open()
    with pytest.raises(PermissionDenied), world.invitations.held("ab" * 32):
        pass
    assert not (world.folder / "invitations").exists()


def test_a_folder_that_cannot_be_read_is_named(world: JoiningWorld) -> None:
    (world.folder / "invitations").write_text("no folder")
    with pytest.raises(BadSettings, match=r"cannot read .*/invitations: Not a directory"):
        world.invitations.are_open()


def test_a_file_that_cannot_be_read_is_named(world: JoiningWorld) -> None:
    (world.folder / "invitations" / "x.json").mkdir(parents=True)
    with pytest.raises(BadSettings, match=r"cannot read .*/x.json: Is a directory"):
        world.invitations.are_open()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"state": "x"}', "\x00"])
def test_a_file_that_is_none_is_named(world: JoiningWorld, content: str) -> None:
    invitation = world.invite()
    (world.folder / "invitations" / f"{invitation.id}.json").write_text(content)
    with pytest.raises(BadSettings, match=f"{invitation.id}.json: cannot be read as an invitation"):
        world.invitations.are_open()
