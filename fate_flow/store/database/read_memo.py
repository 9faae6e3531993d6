"""The rows that a transaction has read, for queries that are asked again before it writes to one of their tables.

Only for SQLite: a transaction that has begun IMMEDIATE holds the write lock, so nobody else changes what it reads. On
MySQL, a second read may see what another process has committed meanwhile, and callers rely on that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_WRITES = ("UPDATE ", "INSERT ", "DELETE ")
_CHANGES_NOTHING = ("SELECT ", "SAVEPOINT ", "RELEASE ")
_TABLE = re.compile(r'"(t_[a-z_]+)"')

_Query = tuple[str, tuple[Any, ...]]


class ReadMemo:
    """What one transaction has read: for each query, by its text and values, what `read` has returned for it."""

    def __init__(self) -> None:
        self._found: dict[_Query, Any] = {}
        self._queries: dict[str, list[_Query]] = {}      # by table

    def get(self, text: str, values: tuple[Any, ...], read: Callable[[], Any]) -> Any:
        """Return what this query finds; call `read` if that is not known."""
        query = text, values
        if query not in self._found:
            self._found[query] = read()
            for table in _tables(text):
                self._queries.setdefault(table, []).append(query)
        return self._found[query]

    def before(self, text: str) -> None:
        """Forget what this statement may change."""
        if not self._found or text.startswith(_CHANGES_NOTHING):
            return
        written = _tables(text)[:1] if text.startswith(_WRITES) else ()      # other tables in a write are only read
        if not written:                                                     # such as ROLLBACK TO
            self._found.clear()
            self._queries.clear()
            return
        for query in self._queries.pop(written[0], ()):
            self._found.pop(query, None)


@lru_cache(maxsize=4096)
def _tables(text: str) -> tuple[str, ...]:
    """Return the tables in a statement, that of a write first."""
    return tuple(dict.fromkeys(_TABLE.findall(text)))
