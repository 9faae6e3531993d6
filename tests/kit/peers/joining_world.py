"""Two parties that join, without a server: what each of them has, and what a test hands from one to the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.access.invitation import LIFE_MS, Invitation
from fate_flow.core.access.joining import NONCE_BYTES, Introduction, SavedList, seal_first
from fate_flow.core.access.key_list import SignedKeyList
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.joining import InvitingSide, Joining, JoiningSide
from fate_flow.peers.site_key import PrivateKey
from tests.kit.key_lists import signed_list
from tests.kit.peers.handshakes import NOW, TlsParty, ms, tls_party
from tests.kit.site_keys import private_key

SECRET = bytes(range(16))
INVITER, INVITED = "9999", "10000"
ADDRESSES = {INVITER: "https://10.0.0.1:9390", INVITED: "https://10.0.0.2:9390"}


@dataclass
class JoiningWorld:
    """Party 9999, which invites, and party 10000, which joins. `now`: milliseconds, of both clocks."""

    folder: Path
    now: int = ms(NOW)
    ahead: int = 0                   # milliseconds that the clock of the invited party is ahead
    saved: list[Joining] = field(default_factory=list)      # at the inviting party

    def __post_init__(self) -> None:
        self.tls = {one: tls_party(one, clock=lambda: self.now) for one in (INVITER, INVITED)}
        self.roots = {INVITER: private_key(101), INVITED: private_key(102)}
        self.invitations = Invitations(self.folder / "invitations", lambda: self.now)
        self.inviting = InvitingSide(INVITER, self.invitations, lambda: self.list_of(INVITER), lambda: self.now)

    def list_of(
        self, party_id: str, tls: TlsParty | None = None, root: PrivateKey | None = None, number: int = 1
    ) -> SignedKeyList:  # fmt: skip
        return signed_list(
            party_id, number, private_key(int(party_id[-1]) + 1), root=root or self.roots[party_id],
            tls=tls or self.tls[party_id],
        )  # fmt: skip

    def invite(self, secret: bytes = SECRET, invited: str = INVITED) -> Invitation:
        found = Invitation(
            ADDRESSES[INVITER], INVITER, self.roots[INVITER].public.key_id, invited, secret, self.now + LIFE_MS
        )
        self.invitations.add(found, "ann")
        return found

    def joining(
        self, invitation: Invitation, *, forged: SignedKeyList | None = None, saved: SavedList | None = None
    ) -> JoiningSide:
        """The invited party, or whoever has its text; `forged`: another key list than its own; `saved`: the list of the
        inviting party that it has."""
        own = forged or self.list_of(INVITED)
        return JoiningSide(invitation, INVITED, ADDRESSES[INVITED], own, lambda: self.now + self.ahead, saved)

    def message(
        self, invitation: Invitation, secret: bytes = SECRET, *, party_id: str = INVITED,
        keys: SignedKeyList | None = None, inviter: str = INVITER, root_id: str = "",
    ) -> str:  # fmt: skip
        """A first message by hand: of whoever knows the id of an invitation, with this secret."""
        said = Introduction(
            party_id, ADDRESSES[INVITED], keys or self.list_of(INVITED), "ab" * NONCE_BYTES, self.now, invitation.id
        )
        return seal_first(said, secret, inviter, root_id or invitation.root_id).text()

    def answer(self, message: str, shown: TlsParty | None = None) -> str:
        """What the inviting party answers over a connection on which it has shown its certificate."""
        return self.inviting.answer(message, (shown or self.tls[INVITER]).peer.key_id, self.saved.append)

    @property
    def leaf(self) -> bytes:
        """The certificate that the inviting party shows."""
        return self.tls[INVITER].own.leaf().certificate
