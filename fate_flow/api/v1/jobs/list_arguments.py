"""The arguments of lists of jobs and tasks: the order, the page, and what a list shows; filters are in `filters.py`.

A search of jobs is read here for clients, and for the board, whose addresses have the same words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from fate_flow.api.http.arguments import MOST_WHOLE, Body, read_text, read_whole, whole
from fate_flow.api.http.declared import Arguments, Schema, described, one_of
from fate_flow.api.v1.envelope import HttpError
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id, check_text, shown
from fate_flow.core.model.status import JobStatus
from fate_flow.store.views.job_search import JobSearch, Place
from fate_flow.store.views.lists import MOST_ROWS, Page

T = TypeVar("T")

_ORDERS = ("create_time", "start_time", "end_time", "elapsed")

PAGE: Arguments = {
    "order_by": one_of(_ORDERS),
    "order": one_of(("asc", "desc")),
    "limit": whole(f"Number of entries on a page; 0 means {MOST_ROWS}, the maximum.", default=0),
    "page": whole("Number of the page.", default=1),
}
PART: Schema = {
    "type": ["string", "integer"], "minimum": -MOST_WHOLE, "maximum": MOST_WHOLE, "description": "A part of the value."
}  # fmt: skip
LONGEST_TEXT = 100
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
_WRITTEN_TIME, _PLACE = re.compile(_TIME), re.compile(r"[0-9]{1,15}(-[^-]+){3}")
_STATUSES = frozenset(status.value for status in JobStatus)
_SEARCHED: Schema = {"type": "string", "maxLength": LONGEST_TEXT, "format": "printable"}
_DAY_OR_TIME: Schema = {"type": "string", "format": "day or time", "pattern": f"^({_TIME})?$"}
_IN_UTC = "A day or a time, in UTC unless it names its offset: 2026-01-31, 2026-01-31T08:30, 2026-01-31T08:30+01:00."
SEARCH: Arguments = {
    "text": described(_SEARCHED, "A part of the name or the notes, or the beginning of the id."),
    "status": one_of({"", *_STATUSES}),
    "party": {"type": "string", "pattern": "^([0-9]{1,10})?$", "description": "A party that takes part."},
    "person": described(_SEARCHED, "Who has submitted, approved, rejected or held it at this party."),
    "component": described(_SEARCHED, "A task of the job, or the component that it runs."),
    "after": described(_DAY_OR_TIME, f"Created then or later. {_IN_UTC}"),
    "before": described(_DAY_OR_TIME, f"Created before. {_IN_UTC}"),
    "from": {
        "type": "string", "format": "place", "pattern": "^([0-9]{1,15}(-[^-]+){3})?$",
        "description": "Where the list goes on: `next` of the answer before.",
    },
}  # fmt: skip
BAD_FILTER = {400: "A filter, the order or the page is wrong."}


def read_page(body: Body, *, newest_first: bool) -> Page:
    """Return the page that a body asks for. Raise HttpError (400), as FATE does for lists."""
    order_by, order = body.get("order_by"), body.get("order")
    order_by = "create_time" if order_by is None else order_by
    order = ("desc" if newest_first else "asc") if order is None else order
    if order_by not in _ORDERS:
        raise HttpError(400, f"The parameter 'order_by' is invalid: it is not one of {', '.join(_ORDERS)}.")
    if order not in ("asc", "desc"):
        raise HttpError(400, "The parameter 'order' is invalid: it is neither asc nor desc.")
    limit = _or_bad_request("limit", lambda: read_whole(body, "limit", 0))
    page = _or_bad_request("page", lambda: read_whole(body, "page", 1))
    return Page(order_by, order == "desc", limit or MOST_ROWS, max(0, page - 1) * limit)


def read_choices(body: Body, key: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return the known words that a key has: one, or a list. Raise HttpError (400)."""
    value = body.get(key)
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) and word in known for word in values):
        raise HttpError(400, f"The parameter '{key}' is invalid: it is not one of {', '.join(sorted(known))}.")
    return tuple(values)


def read_part(body: Body, key: str) -> str:
    """Return the part of a text or of a number to search for. Raise HttpError (400)."""
    value = body.get(key)
    if type(value) is int and abs(value) <= MOST_WHOLE:
        return str(value)
    return _or_bad_request(key, lambda: read_text(body, key))


def _or_bad_request(key: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except BadRequest as error:
        raise HttpError(400, f"The parameter '{key}' is invalid: {error.message}.") from error


# ---------------------------------------------------------------------- a search


def read_search(given: Mapping[str, Any]) -> JobSearch:
    """Return what the words of a search mean. Raise BadRequest."""
    chosen = {key: _word(given, key) for key in ("status", "text", "party", "person", "component")}
    if chosen["status"] and chosen["status"] not in _STATUSES:
        raise BadRequest(f"status: {shown(chosen['status'])} is not one of {', '.join(sorted(_STATUSES))}")
    if chosen["party"]:
        chosen["party"] = check_party_id(chosen["party"], "party")
    return JobSearch(**chosen, after=time_in(given, "after"), before=time_in(given, "before"))


def read_place(given: Mapping[str, Any]) -> Place | None:
    """Return from where the list goes on; None: from its begin. Raise BadRequest."""
    text = given.get("from")
    if text in (None, ""):
        return None
    parts = text.split("-") if isinstance(text, str) and _PLACE.fullmatch(text) else []
    if not parts:
        raise BadRequest(f"from: {shown(text)} is not what this server has written into `next` or into a link")
    return Place(int(parts[0]), *(check_text(one, "from") for one in parts[1:]))


def written_place(place: Place | None) -> str | None:
    """Return a place as `read_place` reads it."""
    if place is None:
        return None
    return f"{place.create_time}-{place.job_id}-{place.role}-{place.party_id}"


def time_in(given: Mapping[str, Any], key: str) -> int:
    """Return a time, or the beginning of a day, in milliseconds; 0 without one. Raise BadRequest.

    It is in UTC unless it names the offset of its time zone."""
    text = given.get(key)
    if text in (None, ""):
        return 0
    try:
        if not _WRITTEN_TIME.fullmatch(text):
            raise ValueError(text)
        found = datetime.fromisoformat(text)
        return int((found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRequest(
            f"{key}: {shown(text)} is neither a day as 2026-01-31 nor a time as 2026-01-31T08:30 (UTC) or "
            "2026-01-31T08:30+01:00"
        ) from error


def _word(given: Mapping[str, Any], key: str) -> str:
    text = given.get(key)
    if text is None:
        return ""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.isprintable():
        raise BadRequest(f"{key}: {shown(text)} is not printable text of at most {LONGEST_TEXT} characters")
    return text
