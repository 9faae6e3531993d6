"""This party as the witness of its peers: it cosigns checkpoints of the logs that they keep with it.

The newest checkpoint of each log is kept, in the database, before its cosignature is given. So a peer cannot show
another past later, and can ask for its own newest checkpoint after it was restored from a backup. A checkpoint that
names an older question than its party's newest one is refused: it may have been sent before that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import RECORD, KeyState, PartyKeys, SignedKeyList, ed25519_in
from fate_flow.core.access.replaced_keys import root_ids
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, cosign, read_checkpoint
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import COSIGNATURE, BadNote, Check, NoteKey, Sign, read_note
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.proof import NewCheckpoint, read_new_checkpoint
from fate_flow.core.record.witness import Seen, seen_in, witness_name
from fate_flow.core.wire.v1.witnessing import AS_BEFORE, ASKED_SINCE, AskedHeld, Held
from fate_flow.services.context.notifying import notify_of_evidence
from fate_flow.services.context.ports import Context
from fate_flow.services.record.acknowledged import acknowledged_by
from fate_flow.services.record.checkpoints import origin_of, place_in
from fate_flow.store.contract.transaction import Transaction

LOG = logging.getLogger(__name__)

MOST_LOGS = 1_000           # of one party; a log more for each epoch
_MOST_QUESTIONS = 16         # of one party that are known: one of them that comes late, once more, is not the newest
_WHY_ASKED_SINCE = "this party has answered a newer question of yours for what it holds"


@dataclass(frozen=True)
class Witness:
    """The key by which this party cosigns."""

    key: NoteKey
    sign: Sign

    @classmethod
    def of(cls, root_id: str, key: bytes, sign: Sign) -> Witness:
        """`root_id`: the id of the root key of this party; `key`: the 32 bytes of the public key."""
        return cls(NoteKey(witness_name(fingerprint_of(root_id)), key, COSIGNATURE), sign)


@dataclass(frozen=True)
class WitnessReply:
    """The answer to `add-checkpoint` as C2SP tlog-witness has it: an HTTP status, and lines of text."""

    status: int
    text: str


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        self.reply = WitnessReply(status, f"{why}\n")
        super().__init__(why)


class Witnessing:
    """Answers the checkpoints of peers."""

    def __init__(self, context: Context, witness: Callable[[], Witness | None], check: Check) -> None:
        """`witness`: the key of this moment; None without one."""
        self._context, self._witness, self._check = context, witness, check
        self._log = log_with(context.party_id)
        self._roots: dict[str, tuple[SignedKeyList, tuple[str, ...]]] = {}   # of each peer, as of its newest key list

    def add_checkpoint(self, caller: str, text: str, question: str) -> WitnessReply:
        """Cosign a checkpoint of this peer, or say why not. `question`: the id of the question that it names. Raises
        StorageFailed."""
        witness = self._witness() if self._context.keeps_record else None
        if witness is None:
            return WitnessReply(404, f"party {self._context.party_id} is no witness\n")
        found: list[Evidence] = []

        def act(tx: Transaction) -> WitnessReply:
            found.clear()
            try:
                return self._answer(tx, caller, text, question, witness, found)
            except _Refused as refused:
                return refused.reply
            except BadNote as error:
                return WitnessReply(400, f"{error}\n")

        reply = self._context.write(act)
        for one in found:
            LOG.error("%s", sentence_of(one))
        return reply

    def held_of(self, caller: str, asked: AskedHeld = AS_BEFORE) -> Held:
        """Return what is kept of this peer's logs with this party, also if no record is kept here any more. From now
        on a checkpoint has to name this question, unless it is one of an audit. Raises OperationFailed,
        StorageFailed."""
        counts = self._context.keeps_record and not asked.is_audit

        def act(tx: Transaction) -> Held:
            keys = _keys_of(tx, caller)
            if keys is None:
                return Held(())
            if counts:
                _put_question(tx, caller, asked.question)        # before it reads: what was cosigned until now is seen
            notes = [note for root in self._roots_of(tx, keys) for note in self._kept(tx, root)]
            messages = acknowledged_by(tx, caller, asked.after)
            return Held(notes, [number for number, _ in messages], [answer for _, answer in messages])

        return self._context.write(act) if counts else self._context.read(act)

    def _kept(self, tx: Transaction, root: str) -> Sequence[str]:
        return tx.witnessed_below(f"{root}/{self._log}/")

    def _roots_of(self, tx: Transaction, keys: PartyKeys) -> tuple[str, ...]:
        """Return the root keys with which the names of a peer's logs may begin."""
        known = self._roots.get(keys.party_id)
        if known is None or known[0] != keys.signed:
            found = root_ids(keys, tx.replaced_key_lists(keys.party_id))
            known = self._roots[keys.party_id] = keys.signed, tuple(map(fingerprint_of, found))
        return known[1]

    def _answer(
        self, tx: Transaction, caller: str, text: str, question: str, witness: Witness, found: list[Evidence]
    ) -> WitnessReply:  # fmt: skip
        """`found` gets the evidence that is new. Raises _Refused, BadNote; nothing is written then."""
        said = read_new_checkpoint(text)
        new = self._signed(tx, caller, said)
        if question != _newest(tx.questions(caller)):
            raise _Refused(ASKED_SINCE, _WHY_ASKED_SINCE)
        kept = tx.witnessed(new.origin)
        head = read_checkpoint(read_note(kept.note).text) if kept else None
        seen, size = seen_in(said, new, head), head.size if head else 0
        if kept is not None and seen in (Seen.OTHER_ROOT, Seen.INCONSISTENT):
            evidence = Evidence(
                caller, seen is Seen.OTHER_ROOT, new.origin, size, kept.note, str(said.checkpoint),
                self._context.clock(),
            )  # fmt: skip
            if tx.add_evidence(evidence):
                found.append(evidence)
                notify_of_evidence(self._context, tx, evidence)
        if seen is Seen.CONTINUES and new.size > size:
            if not tx.is_newest_question(caller, question):
                raise _Refused(ASKED_SINCE, _WHY_ASKED_SINCE)
            stored = StoredCheckpoint(0, new.size, str(said.checkpoint), self._context.clock())
            if not tx.put_witnessed(new.origin, size, stored):
                now_kept = tx.witnessed(new.origin)
                seen, size = Seen.STALE, now_kept.size if now_kept else 0
        if seen is Seen.CONTINUES:
            return WitnessReply(200, cosign(
                said.checkpoint, witness.key, self._context.clock() // 1000, witness.sign
            ).line())  # fmt: skip
        if seen.status == Seen.STALE.status:
            return WitnessReply(seen.status, f"{size}\n")
        return WitnessReply(seen.status, f"the checkpoint does not continue the one of {size} entries\n")

    def _signed(self, tx: Transaction, caller: str, said: NewCheckpoint) -> Checkpoint:
        """Return the checkpoint, which a record key of the caller has signed. Raises _Refused, BadNote."""
        new, keys = read_checkpoint(said.checkpoint.text), _keys_of(tx, caller)
        roots = self._roots_of(tx, keys) if keys else ()
        try:
            root, log, epoch = place_in(new.origin)
        except BadNote:
            root, log, epoch = "", "", 0
        if keys is None or root not in roots or log != self._log:
            raise _Refused(404, f"party {caller} keeps no such log with party {self._context.party_id}")
        if tx.witnessed(new.origin) is None:
            self._check_new(tx, caller, roots, epoch)
        for pem in keys.valid(RECORD, self._context.clock()):
            raw = ed25519_in(pem)
            key = NoteKey(new.origin, raw) if raw else None
            if key is not None and said.checkpoint.of(key):
                try:
                    return checked_checkpoint(said.checkpoint, key, self._check)
                except BadNote as error:
                    raise _Refused(403, str(error)) from error
        raise _Refused(403, f"no record key of party {caller} that is saved here has signed the checkpoint")

    def _check_new(self, tx: Transaction, caller: str, roots: Sequence[str], epoch: int) -> None:
        """Raise _Refused for a log that must not begin: under another root key, a party could show a second past."""
        if any(tx.witnessed(origin_of(root, self._log, epoch)) is not None for root in roots):
            raise _Refused(403, f"epoch {epoch} of this log is held here under another root key of party {caller}")
        if sum(len(self._kept(tx, root)) for root in roots) >= MOST_LOGS:
            raise _Refused(403, f"{MOST_LOGS} logs of party {caller} are kept here, and no more")


def _newest(questions: Sequence[str]) -> str:
    return questions[0] if questions else ""


def _put_question(tx: Transaction, caller: str, question: str) -> None:
    """Keep the id of a question as the newest one of this party. Raises OperationFailed."""
    known = tx.questions(caller)
    if question == _newest(known) or (question and question in known):
        return
    if not tx.put_questions(caller, known, (question, *known)[:_MOST_QUESTIONS]):
        raise OperationFailed(f"another server of party {caller} asks at this moment; ask again")


def _keys_of(tx: Transaction, party_id: str) -> PartyKeys | None:
    """Return the key list of a peer, if it counts."""
    keys = tx.party_keys(party_id)
    return keys if keys is not None and keys.state is KeyState.JOINED else None


def sentence_of(one: Evidence) -> str:
    """Return what an operator is told of evidence."""
    second = read_checkpoint(read_note(one.second).text)
    if one.is_proof and second.size > one.size:
        return (
            f"party {one.party_id} has signed {one.size} entries of {one.origin}, and {second.size} that begin "
            "otherwise: its log has two pasts. Both signatures are kept (fate_flow audit evidence)"
        )
    if one.is_proof:
        return (
            f"party {one.party_id} has signed two roots of {one.origin} at {one.size} entries: its log has two pasts. "
            "Both signatures are kept (fate_flow audit evidence)"
        )
    return (
        f"party {one.party_id} has not shown that its log {one.origin} of {one.size} entries, which is cosigned "
        f"here, is the beginning of the one of {second.size} entries. Both are kept (fate_flow audit evidence)"
    )
