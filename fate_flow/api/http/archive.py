"""A gzip tar that is generated while it is sent: only one chunk of it is in memory."""

from __future__ import annotations

import csv
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from flask import Response

from fate_flow.components.base.regular_file import NoRegularFile, open_regular
from fate_flow.components.tables.table import Table

_CHUNK = 64 * 1024
_ROWS_PER_CHUNK = 500
GZIP = "application/gzip"
_WINDOW = 31                # zlib's window bits for a gzip header and trailer


@dataclass(frozen=True)
class Member:
    """One file of an archive."""

    name: str
    size: int
    chunks: Callable[[], Iterable[bytes]]
    modified: float = 0


def tar_response(file_name: str, members: Iterable[Member]) -> Response:
    """Return an answer whose body is the archive."""
    headers = {"Content-Disposition": f"attachment; filename={file_name}"}
    return Response(tar_gz(members), mimetype=GZIP, headers=headers)


def tar_gz(members: Iterable[Member]) -> Iterator[bytes]:
    """Yield the bytes of the archive in chunks."""
    packer = zlib.compressobj(wbits=_WINDOW)
    for member in members:
        for data in chain((_header(member),), _exactly(member.chunks(), member.size)):
            if packed := packer.compress(data):
                yield packed
    yield packer.compress(bytes(2 * tarfile.BLOCKSIZE)) + packer.flush()


def _header(member: Member) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.size, info.mtime, info.mode = member.size, int(member.modified), 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _exactly(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield as many bytes as the header announced, even if the file has changed since, and the padding of the block."""
    left = size
    for chunk in chunks:
        if not left:
            break
        yield chunk[:left]
        left -= min(left, len(chunk))
    while left:
        yield bytes(min(left, _CHUNK))
        left -= min(left, _CHUNK)
    yield bytes(-size % tarfile.BLOCKSIZE)


# ---------------------------------------------------------------------- members


def files_below(folder: Path) -> Iterator[Member]:
    """Yield the regular files below a folder, by their relative paths; not the links, which may lead anywhere."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            with suppress(FileNotFoundError):       # log rotation may remove it in between
                found = path.lstat()
                if stat.S_ISREG(found.st_mode):
                    inside = str(path.relative_to(folder))
                    yield Member(inside, found.st_size, partial(_chunks_of, path), found.st_mtime)


def _chunks_of(path: Path) -> Iterator[bytes]:
    with suppress(NoRegularFile), open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def text_member(name: str, text: str) -> Member:
    data = text.encode()
    return Member(name, len(data), lambda: (data,))


def csv_of(table_uri: str, name: str, limit: int, has_head: bool) -> Member:
    """Return a table as CSV: the first `limit` rows, all if it is negative. Raise NoSuchTable."""

    def chunks() -> Iterator[bytes]:
        with Table(table_uri) as table:
            head = [(table.schema.sid, *table.schema.header)] if has_head else []
            yield from _csv_chunks(chain(head, islice(table, limit if limit >= 0 else None)))

    # A table never changes, so the size counted now is that of the rows sent later.
    return Member(f"{name}.csv", sum(len(chunk) for chunk in chunks()), chunks)


def _csv_chunks(rows: Iterator[tuple[str, ...]]) -> Iterator[bytes]:
    while batch := list(islice(rows, _ROWS_PER_CHUNK)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(batch)
        yield text.getvalue().encode("utf-8", "surrogatepass")
