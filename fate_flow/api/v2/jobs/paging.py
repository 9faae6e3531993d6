"""Pages of lists, as clients of FATE 2 ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.api.http.declared import TEXT, WHOLE, Arguments
from fate_flow.api.v2.arguments import QUERY
from fate_flow.api.v2.errors import InvalidRequest
from fate_flow.store.views.lists import BY_TIME, MOST_ROWS, Page

PAGE: Arguments = {"limit": WHOLE, "page": WHOLE, "order_by": TEXT, "order": TEXT}
_ORDERS = (BY_TIME, "start_time", "end_time", "elapsed")
_MOST = 2**31


def read_page(sent: Mapping[str, Any]) -> Page:
    """Return the page; newest first unless the client asks for another order. Raise InvalidRequest."""
    order_by, order = sent.get("order_by", BY_TIME), sent.get("order", "desc")
    if order_by not in _ORDERS:
        raise InvalidRequest(QUERY, "order_by", f"Must be one of: {', '.join(_ORDERS)}.")
    if order not in ("asc", "desc"):
        raise InvalidRequest(QUERY, "order", "Must be one of: asc, desc.")
    limit, page = sent.get("limit", 0), sent.get("page", 0)
    for key, value in (("limit", limit), ("page", page)):
        if not 0 <= value <= _MOST:
            raise InvalidRequest(QUERY, key, f"Must be from 0 to {_MOST}.")
    return Page(order_by, order == "desc", limit or MOST_ROWS, max(0, page - 1) * limit)
