"""The question of one participant to another which document a job has there, and the answer to it.

The body has the seat of the sender, and what the answer has: `revision`, `document` (format and digest) and
`is_running`. A party that has the job without a seat of the sender says so with `has_no_seat`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.access.bound_document import BoundDocument, check_document_name
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id, check_role, check_version, shown
from fate_flow.core.model.spec import Party


def comparison_body(seat: Party, bound: BoundDocument) -> dict[str, Any]:
    return {"role": seat.role, "party_id": seat.party_id, **comparison_data(bound)}


def read_comparison(body: Mapping[str, Any]) -> tuple[Party, BoundDocument]:
    """Return the seat of the sender, and what it says. Raises BadRequest."""
    return Party(check_role(body.get("role")), check_party_id(body.get("party_id"))), _read(body)


def comparison_data(bound: BoundDocument) -> dict[str, Any]:
    return {"revision": bound.revision, "document": bound.name, "is_running": bound.is_running}


def compared_in(data: object) -> BoundDocument | None:
    """Return what the answering party says; None if it says nothing that can be read."""
    if not isinstance(data, Mapping):
        return None
    try:
        return _read(data)
    except BadRequest:
        return None


def no_seat_data() -> dict[str, Any]:
    """Return the data of a refusal: the job is here, and the sender has no seat in it."""
    return {"has_no_seat": True}


def has_no_seat(data: object) -> bool:
    return isinstance(data, Mapping) and data.get("has_no_seat") is True


def _read(values: Mapping[str, Any]) -> BoundDocument:
    name = values.get("document")
    if not isinstance(name, str):
        raise BadRequest(f"document: {shown(name)} is not text")
    name = check_document_name(name, "document")
    return BoundDocument(name, check_version(values.get("revision"), "revision"), values.get("is_running") is True)
