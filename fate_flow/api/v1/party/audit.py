"""`/v1/record/...`: the record of this party, for clients who may audit (docs/audit.md).

What these routes read, `fate_flow audit` reads out of the database itself: a server that is broken can be audited, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import (
    FLAG,
    JOB,
    JOB_ID,
    PARTY_ID,
    read_flag,
    read_job_id,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.declared import (
    ANYTHING,
    COUNT,
    NOTHING,
    TEXT,
    YES_NO,
    Arguments,
    Schema,
    a_list,
    an_object,
    declared,
    described,
    or_null,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok, silent_json
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.core.access.client_roles import AUDIT
from fate_flow.core.model.errors import BadRequest, JobNotFound, OperationFailed
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.record.comparison import ALL, About, Finding
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.record.shown import Followed, Position, read_position
from fate_flow.peers.site_key import has_signed, raw_of_pem
from fate_flow.services.context.ports import Context
from fate_flow.services.record.anchoring import verify_for_request
from fate_flow.services.record.asking import HeldNow, ask_what_is_held, parties_to_ask
from fate_flow.services.record.following import followed, newest_position
from fate_flow.services.record.proving import for_request
from fate_flow.services.record.reading import PAGE, Wanted, entries_of_job, search
from fate_flow.services.record.verifying import Keys
from fate_flow.services.witnesses.comparing import Comparing, Shown
from fate_flow.store.contract.transaction import Transaction

_LATEST = 2**53
_ENTRIES = a_list(ANYTHING, description=(
    "Each with log, epoch, index, entry (its text), person, and text; if other parties were asked, also of (whose log "
    "has it, if not that of this party) and there (party_id, epoch, index, at, is_agreed: the other side of a message)."
))
_WANTED: Arguments = {
    "party_id": {**PARTY_ID, "description": "Only what is in the log with this party, or about it."},
    "person": described(TEXT, "Only what this person has asked for."),
    "kind": described(TEXT, "Only entries of this kind."),
    "status": described(TEXT, "Only changes to this status."),
    "since": whole("Only from this time on: milliseconds since 1970.", maximum=_LATEST, default=0),
    "until": whole("Only before this time; 0: up to now.", maximum=_LATEST, default=0),
    "digest": described(TEXT, "Only with this digest, message number or trace, also in texts."),
    "after": whole("Where the last answer has said that the search goes on.", maximum=_LATEST, default=0),
}  # fmt: skip
_OWN = {"party_id": TEXT}
_LOGS = "Each with log, epoch, size, state, why, and warning: what another party says of it and cannot prove."
_POSITION: Schema = {
    "type": "object", "additionalProperties": {
        "type": "array", "minItems": 2, "maxItems": 2,
        "items": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1},
    },
    "description": "By log: the epoch and the index of the next entry. None: after all that is there; {}: before it.",
}  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _AuditRoutes(services)
    found = Blueprint("audit", __name__, url_prefix="/v1/record")
    found.post("/show")(routes.show)
    found.post("/search")(routes.search)
    found.post("/follow")(routes.follow)
    found.post("/prove")(routes.prove)
    found.post("/verify")(routes.verify)
    found.post("/reconcile")(routes.reconcile)
    return found


class _AuditRoutes:
    def __init__(self, services: Services) -> None:
        self._context = services.context
        self._own = services.settings.party_id
        self._keys, self._services = services.record_keys, services

    @declared(
        "Show what is recorded about a job here.", AUDIT, needs=JOB,
        takes={"ask": described(FLAG, "Whether to ask the other parties what their logs have of the same messages.")},
        data=an_object({
            **_OWN, "entries": _ENTRIES,
            "unheard": described(ANYTHING, "Why logs of parties of the job are not beside it, by party id."),
        }),
        aside=JOBS_BESIDE,
    )  # fmt: skip
    def show(self) -> Response:
        body = arguments("job_id")
        job_id, asks = read_job_id(body), read_flag(body, "ask")
        found = Shown(self._context.read(lambda tx: entries_of_job(tx, job_id)))
        if not found.entries:
            raise JobNotFound(f"nothing is recorded about job {job_id} (record.switch)")
        if asks:
            found = comparing(self._context).shown(found.entries, job_id, self._services.ask_party, monotonic)
        data = {**self._whose(), "entries": [one.as_document() for one in found.entries]}
        return ok({**data, "unheard": dict(found.unheard)}, **jobs_beside(self._services.views, [job_id]))

    @declared(
        f"Search the record: one request looks at {PAGE} entries.", AUDIT, takes=_WANTED,
        data=an_object({
            **_OWN, "entries": _ENTRIES, "after": described(or_null(COUNT), "Where to go on; null: that was all."),
        }),
        aside=JOBS_BESIDE,
    )  # fmt: skip
    def search(self) -> Response:
        body = silent_json()
        party = body.get("party_id")
        time = partial(read_whole, body, default=0, maximum=_LATEST)
        wanted = Wanted(
            check_party_id(party) if party is not None else "", read_text(body, "person"), read_text(body, "kind"),
            read_text(body, "status"), time("since"), time("until"), read_text(body, "digest"),
        )  # fmt: skip
        after = time("after")
        found = self._context.read(lambda tx: search(tx, wanted, after))
        entries = [one.as_document() for one in found.entries]
        jobs = jobs_beside(self._services.views, (one.job_id for one in found.entries if one.job_id))
        return ok({**self._whose(), "entries": entries, "after": found.after}, **jobs)

    @declared(
        f"Follow the record: at most {PAGE} entries that were sealed after a position, and the next position.", AUDIT,
        takes={"position": _POSITION},
        data=an_object({
            **_OWN, "entries": _ENTRIES, "position": _POSITION,
            "has_more": described(YES_NO, "Whether there are more entries already."),
            "beyond": {
                **_POSITION,
                "description": "The logs that end before the position, as after a restored backup, and where they end: "
                "they are followed from there on.",
            },
        }),
        aside=JOBS_BESIDE,
    )  # fmt: skip
    def follow(self) -> Response:
        body = silent_json()
        if body.get("position") is None:
            page = Followed((), self._context.read(newest_position))
        else:
            position = _read_position(body)
            page = self._context.read(lambda tx: followed(tx, position))
        jobs = jobs_beside(self._services.views, (one.job_id for one in page.entries if one.job_id))
        return ok({**self._whose(), **page.as_document()}, **jobs)

    @declared(
        "Make a file with entries and their proofs, for a third person: those about a job, or the log with a party.",
        AUDIT,
        takes={
            "job_id": JOB_ID, "party_id": PARTY_ID,
            "closed": {**FLAG, "default": False, "description": "Without the texts that entries commit to."},
        },
        either=(
            {"required": ["job_id"], "properties": {"job_id": JOB_ID, "party_id": NOTHING}},
            {"required": ["party_id"], "properties": {"job_id": NOTHING, "party_id": PARTY_ID}},
        ),
        data=an_object({
            **_OWN, "file": described(TEXT, "For `fate_flow verify`, or for `audit reconcile` at that party."),
            "left": described(COUNT, "Entries that are not signed yet, and not in the file."),
            "never": described(COUNT, "Entries of earlier epochs that will not be signed, and are not in the file."),
        }),
    )  # fmt: skip
    def prove(self) -> Response:
        body = silent_json()
        if (body.get("job_id") is None) == (body.get("party_id") is None):
            raise BadRequest("one of job_id and party_id is needed")
        job_id = read_job_id(body) if body.get("job_id") is not None else ""
        party_id, is_closed = "" if job_id else check_party_id(body["party_id"]), read_flag(body, "closed")
        found = self._context.read(lambda tx: for_request(tx, job_id, party_id, is_closed), of_one_moment=True)
        return ok({**self._whose(), "file": found.text, "left": found.left, "never": found.never})

    @declared(
        "Verify all logs of this party's record.", AUDIT,
        takes={"ask": described(FLAG, "Whether to ask the other parties first what they hold of the logs now.")},
        data=an_object({
            **_OWN, "logs": a_list(ANYTHING, description=_LOGS),
            "has_keys": described(YES_NO, "Whether signatures were checked."),
            "has_evidence": described(YES_NO, "Whether logs of other parties do not fit together."),
            "unheard": described(ANYTHING, "Why parties that were asked have not said what they hold, by party id."),
        }),
    )
    def verify(self) -> Response:
        keys, now = self._keys(), HeldNow(0)
        if read_flag(silent_json(), "ask"):
            parties = self._context.read(lambda tx: parties_to_ask(tx, self._context.routes))
            now = ask_what_is_held(parties, self._services.ask_party, self._context.clock())
        found = self._context.read(partial(_verified, keys, now), of_one_moment=True)
        return ok({**self._whose(), **found, "unheard": dict(now.unheard)})

    @declared(
        "Compare the log with another party with that party's log about this one: with a file, or with what the party "
        "hands out now; or the messages of a job, with all its parties.", AUDIT,
        takes={
            "party_id": PARTY_ID, "job_id": JOB_ID,
            "file": described(or_null(TEXT), "What `fate_flow audit prove -p PARTY` wrote there; null: it is asked."),
            "since": whole("Only messages from this time on: milliseconds since 1970.", maximum=_LATEST, default=0),
        },
        either=(
            {"required": ["job_id"], "properties": {"job_id": JOB_ID, "party_id": NOTHING, "file": NOTHING}},
            {"required": ["party_id"], "properties": {"job_id": NOTHING, "party_id": PARTY_ID}},
        ),
        data=an_object({
            **_OWN, "messages": a_list(ANYTHING),
            "unheard": described(ANYTHING, "Why logs of parties of the job were not compared, by party id."),
        }),
    )  # fmt: skip
    def reconcile(self) -> Response:
        body = silent_json()
        if (body.get("job_id") is None) == (body.get("party_id") is None):
            raise BadRequest("one of job_id and party_id is needed")
        since, ask = read_whole(body, "since", 0, maximum=_LATEST), self._services.ask_party
        unheard: Mapping[str, str] = {}
        if body.get("job_id") is not None:
            if body.get("file") is not None:
                raise BadRequest("file: has the log of one party: name it in party_id, instead of job_id")
            job = comparing(self._context).of_job(About(read_job_id(body), since), ask, monotonic)
            found, unheard = job.findings, job.unheard
        else:
            other, about = check_party_id(body["party_id"]), About(since=since)
            if body.get("file") is not None:
                found = compared(self._context, other, read_text(body, "file"), about)
            else:
                found = compared_by_asking(self._services, other, about)
        return ok({**self._whose(), "messages": [one.as_document() for one in found], "unheard": dict(unheard)})

    def _whose(self) -> dict[str, str]:
        return {"party_id": self._own}


def _read_position(body: Mapping[str, Any]) -> Position:
    try:
        return read_position(body["position"])
    except ValueError as error:
        raise BadRequest(f"position: {error}, as in the last answer") from error


def comparing(context: Context) -> Comparing:
    return Comparing(context, has_signed, raw_of_pem)


def compared(context: Context, party_id: str, text: str, about: About = ALL) -> tuple[Finding, ...]:
    """Compare the log with a party with the file that it has written, and keep its head. Raise BadRequest for another
    file; NotFound without its keys."""
    try:
        return comparing(context).with_file(party_id, text, about)
    except BadBundle as error:
        raise BadRequest(f"file: {error}") from error


def compared_by_asking(services: Services, party_id: str, about: About = ALL) -> tuple[Finding, ...]:
    """Compare the log with a party with what it hands out now. Raise OperationFailed if it hands out nothing that it
    has signed as a whole; NotFound without its keys; TooLarge."""
    try:
        return comparing(services.context).by_asking(party_id, services.ask_party, monotonic, about)
    except BadBundle as error:
        raise OperationFailed(f"party {party_id} does not hand out its log as it has signed it: {error}") from error


def _verified(keys: Keys | None, now: HeldNow, tx: Transaction) -> dict[str, object]:
    return {
        "logs": [one.as_document() for one in verify_for_request(tx, keys, now)], "has_keys": keys is not None,
        "has_evidence": bool(tx.evidence()),
    }  # fmt: skip
