"""Statements as FATE Flow 1.6 logs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def with_values(statement: str, params: Sequence[Any]) -> str:
    """Return the statement with its values inserted and MySQL's quotes, as FATE Flow 1.6 logs it."""
    pieces = statement.replace('"', "`").replace("%s", "?").split("?")
    values = [*(_literal(value) for value in params), ""]
    return "".join(piece + value for piece, value in zip(pieces, values, strict=False))


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return str(value)
    return f"'{value}'"
