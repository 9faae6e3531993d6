"""The files in the folder for tables, for a search for those that no row names.

How old a file is says its change time, which a rename and a link set, too: a table counts from its publication on, and
one of a restored home from the restore on.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables.table import UNFINISHED, Table, drop, remove_unless_written
from fate_flow.components.tables.table_uri import SUFFIX, BadTableUri, encode_piece, format_uri

Found = tuple[str, str, str]
"""The namespace, and the name of the table or else the file name of a draft; the other one is empty."""


def files_before(data_dir: Path, at: int) -> Iterator[Found]:
    """Yield the tables and drafts whose files were last changed before this time (milliseconds since the epoch).

    Links are not followed, and files with other names are left out."""
    for folder in _entries(data_dir):
        if (namespace := _decoded(folder.name)) and folder.is_dir(follow_symlinks=False):
            for entry in _entries(Path(folder.path)):
                named = _named(entry.name)
                if named is not None and entry.is_file(follow_symlinks=False) and _is_older(entry, at):
                    yield (namespace, *named)


def maker_of(data_dir: Path, namespace: str, name: str) -> str:
    """Return the id of the task that wrote the table; empty if the file does not say so, or is no table."""
    try:
        with Table(format_uri(data_dir, namespace, name)) as table:
            return table.made_by
    except (ComponentError, sqlite3.Error, LookupError, ValueError):
        return ""


def remove_before(data_dir: Path, found: Found, before: int) -> bool:
    """Remove the file; False if it was changed since `before`, if a writer still fills it, or if it is gone.

    Raises BadTableUri if it does not lie in the data folder."""
    namespace, name, draft = found
    if draft:
        return remove_unless_written(data_dir / encode_piece(namespace) / draft, before)
    return drop(data_dir, format_uri(data_dir, namespace, name), before)


def has_files(data_dir: Path, namespace: str) -> bool:
    return next(_entries(data_dir / encode_piece(namespace)), None) is not None


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _named(file: str) -> tuple[str, str] | None:
    """Return the name of the table, or else the file as a draft; None for a file that no writer has made."""
    if file.startswith(".") and file.endswith(UNFINISHED):
        return "", file
    name = _decoded(file.removesuffix(SUFFIX)) if file.endswith(SUFFIX) else ""
    return (name, "") if name else None


def _decoded(piece: str) -> str:
    """Return the name that a piece of a path stands for; empty if it is not spelled as writers do."""
    name = unquote(piece)
    with suppress(BadTableUri):
        return name if encode_piece(name) == piece else ""
    return ""


def _is_older(entry: os.DirEntry[str], at: int) -> bool:
    with suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_ctime_ns // 1_000_000 < at
    return False
