"""The uri of a table, `standalone://DATA_DIR/NAMESPACE/NAME`, and its file.

Namespace and name come from users. Each is percent-encoded into one piece of the path, so that no name can leave the
data folder, and every table has exactly one uri.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from fate_flow.components.base.errors import ComponentError, shown

SCHEME = "standalone://"
SUFFIX = ".sqlite"
MAX_PIECE = 200     # bytes; a file name takes 255


class BadTableUri(ComponentError):
    """The uri does not name a table."""


@dataclass(frozen=True)
class TableAddress:
    data_dir: Path
    namespace: str
    name: str

    @property
    def path(self) -> Path:
        return self.data_dir / encode_piece(self.namespace) / f"{encode_piece(self.name)}{SUFFIX}"

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.data_dir}/{encode_piece(self.namespace)}/{encode_piece(self.name)}"


def format_uri(data_dir: Path, namespace: str, name: str) -> str:
    """Return the uri of a table. Raises BadTableUri if a name is not possible."""
    return TableAddress(data_dir, namespace, name).uri


def parse_uri(uri: str) -> TableAddress:
    """Return the table that a uri names. Raises BadTableUri for any spelling other than that of `format_uri`."""
    pieces = uri.removeprefix(SCHEME).rsplit("/", 2)
    if not uri.startswith(f"{SCHEME}/") or len(pieces) != 3 or ".." in pieces[0].split("/"):
        raise BadTableUri(f"{shown(uri)} is not of the form {SCHEME}/DATA_DIR/NAMESPACE/NAME")
    address = TableAddress(Path(pieces[0]), unquote(pieces[1]), unquote(pieces[2]))
    if address.uri != uri:
        raise BadTableUri(f"{shown(uri)} is not spelled as it should be, {shown(address.uri)}")
    return address


def table_in(data_dir: Path, uri: str) -> TableAddress:
    """Return the table that a uri names. Raises BadTableUri if it does not lie in this data folder, links resolved."""
    address = parse_uri(uri)
    expected = TableAddress(Path(os.path.realpath(data_dir)), address.namespace, address.name).path
    if Path(os.path.realpath(address.path)) != expected:
        raise BadTableUri(f"{shown(uri)} does not lie in {data_dir}, the folder of this party's tables")
    return address


def encode_piece(text: str) -> str:
    """Return the text as one piece of a path, with everything outside [A-Za-z0-9_.-] percent-encoded."""
    try:
        piece = re.sub(r"[^A-Za-z0-9_.-]", lambda char: quote(char.group(), safe="").replace("~", "%7E"), text)
    except UnicodeEncodeError as error:   # a lone surrogate, which JSON can contain but UTF-8 cannot
        raise BadTableUri(f"{shown(text)} is not text that UTF-8 can hold") from error
    if piece in ("", ".", "..") or len(piece) > MAX_PIECE:
        raise BadTableUri(f"{shown(text)} cannot name a table or a namespace")
    return piece
