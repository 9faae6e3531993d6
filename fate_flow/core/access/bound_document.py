"""The name of the document that a job is bound to at a party. It goes with each message of the job's workers, and from
participant to participant when the job starts.

Parties that compare it notice a coordinator that gives them different documents under one job id."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}:[0-9a-f]{64}")
_SHORT = 12

_COMPARED = frozenset({"fate_v1", "native"})
"""Formats that every party knows which names its document. A job file is given beside its form in FATE v1, so one party
cannot have the one and another party the other. Of a later format, this party does not know who knows it."""


def document_name(document_format: str, digest: str) -> str:
    return f"{document_format}:{digest}"


def check_document_name(name: str, path: str) -> str:
    """Return the name of another party; it may be empty. Raises BadRequest for another form."""
    if name and not _NAME.fullmatch(name):
        raise BadRequest(f"{path}: {shown(name)} is not a format, a colon and 64 lower case hex digits")
    return name


def why_other_document(sender: str, sent: str, receiver: str, here: str) -> str:
    """Return why two parties cannot run the same job; empty if they can, or if one does not name its document.

    `sender`, `receiver`: the seats as text; `sent`, `here`: the names of their documents."""
    if not sent or not here or sent == here:
        return ""
    formats = [name.partition(":")[0] for name in (sent, here)]
    if formats[0] != formats[1] and not _COMPARED.issuperset(formats):
        return ""
    return (
        f"the coordinator gave the two parties different documents: {sender} runs {_short(sent)}, "
        f"{receiver} runs {_short(here)}"
    )


@dataclass(frozen=True)
class BoundDocument:
    """What a participant says about the document of a job at its party."""

    name: str                            # empty: it is not compared
    revision: int                        # how often its parameters were changed
    is_running: bool                     # whether the job runs at the party


def why_asked_in_vain(asker: str, asked: BoundDocument, here: str, own: BoundDocument) -> str:
    """Return why the asked party cannot run the job of the asker; empty if it can, or if nothing follows.

    The asker has begun with this revision. A true coordinator lets nobody begin before each party has the revision, so
    only a question that comes late names an older one."""
    return "" if asked.revision < own.revision else why_other_document(asker, asked.name, here, own.name)


def why_answered_otherwise(here: str, own: BoundDocument, asked: str, answered: BoundDocument) -> str:
    """Return why the asker cannot run the job of the party that answers; empty if it can, or if nothing follows.

    A job gets a later revision only where it does not run. So if it runs at both parties, both have the same one."""
    if _is_ahead(own, answered):
        return ""
    return why_other_document(here, own.name, asked, answered.name)


def must_compare_again(own: BoundDocument, answered: BoundDocument) -> bool:
    """Return whether nothing follows from the answer yet, because the job runs at the asker and not where it was asked.

    Otherwise a coordinator that starts the one party before the other would not be noticed."""
    return own.is_running and _is_ahead(own, answered)


def _is_ahead(own: BoundDocument, answered: BoundDocument) -> bool:
    return answered.revision > own.revision and not (answered.is_running and own.is_running)


def why_other_parties(here: str, name: str, asked: str, asker: str) -> str:
    """Return why the asker cannot run the job of a party that answers that the asker has no seat in it."""
    return (
        f"the coordinator gave the two parties different documents: {here} runs {_short(name)}, "
        f"the job of {asked} is without party {asker}"
    )


def _short(name: str) -> str:
    return name.partition(":")[2][:_SHORT]
