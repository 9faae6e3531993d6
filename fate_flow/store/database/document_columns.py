"""The columns of a job's document."""

from __future__ import annotations

from typing import Any

from fate_flow.core.model.document import JobDocument
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.values import Document


def document_columns(document: Document) -> dict[str, Any]:
    """Return the columns that a change of the parameters writes: all but the DSL, which never changes."""
    own = document.own
    return {
        "f_runtime_conf": to_json(document.runtime_conf),
        "f_runtime_conf_on_party": to_json(document.on_party),
        "f_format": document.content.format,
        "f_document": None if own is None else to_json({"body": own.body, "defaults": own.defaults}),
    }


def own_document_of(own_format: str, text: str | None) -> JobDocument | None:
    """Return the document of a row in its own format; None if that is FATE v1."""
    own = from_json(text)
    return JobDocument(own_format, own["body"], own["defaults"]) if own else None
