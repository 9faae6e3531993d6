"""The arguments of lists of jobs and tasks: the order, the page, and what a list shows; filters are in `filters.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fate_flow.api.http.arguments import MOST_WHOLE, Body, read_text, read_whole, whole
from fate_flow.api.http.declared import Arguments, Schema, one_of
from fate_flow.api.v1.envelope import HttpError
from fate_flow.core.model.errors import BadRequest
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
