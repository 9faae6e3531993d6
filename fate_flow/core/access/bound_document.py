"""The name of the document that a job is bound to at a party, which goes with each message of the job's workers.

Parties that compare it notice a coordinator that gives them different documents under one job id."""

from __future__ import annotations

import re

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


def _short(name: str) -> str:
    return name.partition(":")[2][:_SHORT]
