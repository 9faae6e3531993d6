"""The columns of a job's document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.document import Disclosure, JobDocument
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.values import Document

_BODY, _DISCLOSURE, _COMPARED = "body", "disclosure", "compared"


def document_columns(document: Document) -> dict[str, Any]:
    """Return the columns that a change of the parameters writes: all but the DSL, which never changes."""
    own, disclosure = document.own, document.disclosure
    kept: dict[str, Any] = {} if own is None else {_BODY: own.body, "defaults": own.defaults}
    if document.is_compared:
        kept[_COMPARED] = True
    if disclosure is not None:
        kept[_DISCLOSURE] = {
            "salts": disclosure.salts, "commitments": disclosure.commitments, "whole": list(disclosure.whole),
        }  # fmt: skip
    return {
        "f_runtime_conf": to_json(document.runtime_conf),
        "f_runtime_conf_on_party": to_json(document.on_party),
        "f_format": document.content.format,
        "f_document": to_json(kept) if kept else None,
    }


@dataclass(frozen=True)
class KeptDocument:
    """What a row has of its document beside that in FATE v1; see `Document`."""

    own: JobDocument | None = None
    disclosure: Disclosure | None = None
    is_compared: bool = False


def kept_document(own_format: str, text: str | None) -> KeptDocument:
    kept: Mapping[str, Any] = (from_json(text) if text else None) or {}
    own = JobDocument(own_format, kept[_BODY], kept["defaults"]) if _BODY in kept else None
    given, is_compared = kept.get(_DISCLOSURE), kept.get(_COMPARED) is True
    if given is None:
        return KeptDocument(own, None, is_compared)
    return KeptDocument(own, Disclosure(given["salts"], given["commitments"], tuple(given["whole"])), is_compared)
