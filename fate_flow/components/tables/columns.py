"""The columns of a source that become a table, by `id_column` and `feature_column`."""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.components.base.errors import ComponentError, shown
from fate_flow.components.tables.table import Schema

_SHOWN_LENGTH = 300


def chosen_columns(columns: Sequence[str], id_column: str | None, feature_column: str | None) -> Schema:
    """Return the schema of the table. Raises ComponentError.

    The ids are in `id_column`, by default in the first column. The value columns are those in `feature_column`
    (separated by commas, in this order), by default all others."""
    sid = id_column or columns[0]
    asked = [one.strip() for one in feature_column.split(",")] if feature_column else None
    header = [one for one in columns if one != sid] if asked is None else asked
    known = set(columns)
    for key, names in (("id_column", [sid]), ("feature_column", header)):
        missing = [one for one in names if one not in known]
        if missing:
            listed = ", ".join(columns)[:_SHOWN_LENGTH]
            raise ComponentError(f"{key}: {shown(missing[0])} is not one of the columns {listed}")
    if len({sid, *header}) <= len(header):
        raise ComponentError(f"feature_column: {shown(feature_column)} names a column twice, or that of the ids")
    return Schema(tuple(header), sid)
