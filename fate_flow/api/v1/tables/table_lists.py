"""The arguments of lists of tables, which are read here for clients, and for the board, whose addresses have the same
words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from fate_flow.api.http.arguments import NAMESPACE
from fate_flow.api.http.declared import Arguments, described, one_of
from fate_flow.components.providers.builtin import UPLOADED, WRITTEN
from fate_flow.components.providers.description import BOUND
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_table_piece, shown
from fate_flow.services.artifacts.tables import MADE
from fate_flow.store.views.board_tables import TablePlace, TableSearch

ORIGINS = {UPLOADED: "uploaded", MADE: "made by tasks", WRITTEN: "written by Writer", BOUND: "bound"}
"""Where tables are from, and how people say it."""

_PLACE = r"[0-9]{1,15}/[^/]+/[^/]+"
_WRITTEN_PLACE = re.compile(_PLACE)
TABLE_SEARCH: Arguments = {
    "origin": one_of(ORIGINS, description="Where the tables are from.", default=UPLOADED),
    "namespace": described(NAMESPACE, "Tables of this namespace alone."),
    "from": {
        "type": "string", "format": "place of a table", "pattern": f"^({_PLACE})?$",
        "description": "Where the list goes on: `next` of the answer before.",
    },
}  # fmt: skip


def read_table_search(given: Mapping[str, Any]) -> TableSearch:
    """Return which tables a list is to have. Raise BadRequest."""
    origin = given.get("origin")
    origin = UPLOADED if origin is None else origin
    if not isinstance(origin, str) or origin not in ORIGINS:
        raise BadRequest(f"origin: {shown(origin)} is not one of {', '.join(ORIGINS)}")
    namespace = given.get("namespace")
    return TableSearch(origin, "" if namespace is None else check_table_piece(namespace, "namespace"))


def read_table_place(given: Mapping[str, Any]) -> TablePlace | None:
    """Return from where the list goes on; None: from its begin. Raise BadRequest."""
    text = given.get("from")
    if text in (None, ""):
        return None
    parts = text.split("/") if isinstance(text, str) and _WRITTEN_PLACE.fullmatch(text) else []
    if not parts:
        raise BadRequest(f"from: {shown(text)} is not what this server has written into `next` or into a link")
    return TablePlace(int(parts[0]), *(check_table_piece(unquote(one), "from") for one in parts[1:]))
