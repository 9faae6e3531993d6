"""The invitations of this party, in files that only its user can read: one file each, which has the secret.

A file is made by a command and is looked at by the server. Whoever changes one holds a lock, so a use, a try, or the
decision that there is none left, happens once, however many requests come at the same time. An invitation that was
used, or cannot be used any more, has no secret: the server looks for expired ones twice a second.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from fate_flow.core.access.invitation import MOST_TRIES, Invitation, read_invitation
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.model.errors import BadRequest, BadSettings, FlowError, PermissionDenied
from fate_flow.core.text.os_errors import os_error_text

_SUFFIX = ".json"
_KEPT_MS = 24 * 3600 * 1000          # after its end, for whoever asks what has become of it
_NONE = (
    "secret: no invitation with this secret is open here: it was used, withdrawn or is over, or another server has "
    "made it; ask for another one (fate_flow party invite)"
)


class InvitationState(StrEnum):
    OPEN = "open"
    USED = "used"
    SPENT = "spent"                  # too many wrong codes
    WITHDRAWN = "withdrawn"          # by a newer invitation of the same party
    EXPIRED = "expired"              # nobody has used it in time


@dataclass(frozen=True)
class KeptInvitation:
    """What the file of an invitation has."""

    text: str                        # of the invitation, with its secret; empty once it cannot be used any more
    invited: str                     # party id
    until: int                       # milliseconds since 1970
    by: str                          # who has invited
    tries: int = 0                   # with a wrong code
    state: InvitationState = InvitationState.OPEN
    joined: JoinedParty | None = None    # once it was used

    def is_open(self, now: int) -> bool:
        return self.state is InvitationState.OPEN and now < self.until

    def has_expired(self, now: int) -> bool:
        """Return whether its time is over, and its file still has its secret."""
        return self.state is InvitationState.OPEN and now >= self.until


class Invitations:
    """`folder` is made when the first invitation is; `clock` returns milliseconds since 1970."""

    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        self._folder = folder
        self._clock = clock

    def add(self, invitation: Invitation, by: str) -> None:
        """Keep a new invitation; older ones of the same party can no longer be used. Raises BadSettings."""
        with self._locked():
            self._expire()
            for name, kept in self._all():
                if kept.until + _KEPT_MS < self._clock():
                    (self._folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)
                elif kept.invited == invitation.invited and kept.state is InvitationState.OPEN:
                    self._write(name, replace(kept, text="", state=InvitationState.WITHDRAWN))
            self._write(invitation.id, KeptInvitation(invitation.text(), invitation.invited, invitation.until, by))

    def withdraw(self, invitation_id: str) -> None:
        """Make an open invitation useless. Raises BadSettings."""
        with self._locked():
            kept = self.find(invitation_id)
            if kept is not None and kept.state is InvitationState.OPEN:
                self._write(invitation_id, replace(kept, text="", state=InvitationState.WITHDRAWN))

    def are_open(self) -> bool:
        """Return whether somebody may join now; remove the secrets of expired invitations. Raises BadSettings."""
        now = self._clock()
        found = [kept for _, kept in self._all()]
        if any(kept.has_expired(now) for kept in found):
            with suppress(BlockingIOError), self._locked(fcntl.LOCK_NB):     # whoever asks must not wait for a database
                self._expire()
        return any(kept.is_open(now) for kept in found)

    def outcome(self, invitation_id: str) -> KeptInvitation | None:
        """Return what has become of an invitation, once whoever uses it has stored what follows from that, or has
        failed to. Return None if nothing is known of it any more. Raises BadSettings."""
        with self._locked():
            self._expire()
            return self.find(invitation_id)

    def find(self, invitation_id: str) -> KeptInvitation | None:
        """Return what an invitation is at this moment; None if nothing is known of it any more. Raises BadSettings."""
        return self._read(self._folder / f"{invitation_id}{_SUFFIX}")

    @contextmanager
    def held(self, invitation_id: str) -> Iterator[HeldInvitation]:
        """Yield an open invitation; nobody else uses it meanwhile. `invitation_id`: 64 hex digits, from anybody.

        Raises PermissionDenied if there is none; BadSettings if it cannot be read or locked."""
        if not self._folder.is_dir():
            raise PermissionDenied(_NONE)
        with self._locked():
            kept = self.find(invitation_id)
            if kept is None or not kept.is_open(self._clock()):
                raise PermissionDenied(_NONE)
            yield HeldInvitation(kept, lambda changed: self._write(invitation_id, changed))

    # ------------------------------------------------------------------ files

    def _expire(self) -> None:
        now = self._clock()
        for name, kept in self._all():
            if kept.has_expired(now):
                self._write(name, replace(kept, text="", state=InvitationState.EXPIRED))

    @contextmanager
    def _locked(self, flags: int = 0) -> Iterator[None]:
        """Raises BadSettings; BlockingIOError with LOCK_NB while somebody else has the lock."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadSettings(f"cannot open {os_error_text(error)}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | flags)
            yield
        finally:
            os.close(file)

    def _all(self) -> Iterator[tuple[str, KeptInvitation]]:
        try:
            paths = sorted(path for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadSettings(f"cannot read {os_error_text(error)}") from error
        for path in paths:
            if (kept := self._read(path)) is not None:
                yield path.stem, kept

    def _read(self, path: Path) -> KeptInvitation | None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            joined = JoinedParty(**found.pop("joined")) if found.get("joined") else None
            return KeptInvitation(**{**found, "state": InvitationState(found["state"]), "joined": joined})
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadSettings(f"cannot read {os_error_text(error)}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadSettings(f"{path}: cannot be read as an invitation; remove it") from error

    def _write(self, name: str, kept: KeptInvitation) -> None:
        draft = self._folder / f".{name}"
        try:
            with open(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
                file.write(json.dumps(asdict(kept)))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self._folder / f"{name}{_SUFFIX}")
        except OSError as error:
            raise BadSettings(f"{self._folder}: cannot be written: {os_error_text(error)}") from error


class HeldInvitation:
    """An open invitation that nobody else uses at this moment."""

    def __init__(self, kept: KeptInvitation, write: Callable[[KeptInvitation], None]) -> None:
        self._kept = kept
        self._write = write
        self.by = kept.by
        try:
            self.invitation = read_invitation(kept.text)
        except BadRequest as error:
            raise BadSettings("the file of this invitation was changed; remove it") from error

    def fail(self, why: str) -> PermissionDenied:
        """Count a try with a wrong code; return the error for whoever has tried. Raises BadSettings."""
        tries = self._kept.tries + 1
        is_spent = tries >= MOST_TRIES
        state, text = (InvitationState.SPENT, "") if is_spent else (InvitationState.OPEN, self._kept.text)
        self._kept = replace(self._kept, tries=tries, state=state, text=text)
        self._write(self._kept)
        left = "the invitation cannot be used any more" if is_spent else f"{MOST_TRIES - tries} tries are left"
        return PermissionDenied(f"{why}; {left}")

    @contextmanager
    def used(self, joined: JoinedParty) -> Iterator[None]:
        """Use the invitation before the block stores what follows from it; if that fails, it is open again."""
        self._write(replace(self._kept, text="", state=InvitationState.USED, joined=joined))
        try:
            yield
        except FlowError:
            self._write(self._kept)
            raise
