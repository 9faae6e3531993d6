"""The headers of the requests to a collector, such as a token: from a private file."""

from __future__ import annotations

import re
from pathlib import Path

from fate_flow.core.model.errors import BadSettings
from fate_flow.server.notifying.webhook import text_of_secret

_EXAMPLE = "such as authorization: Bearer x"
_LINE = re.compile(r"([0-9A-Za-z-]+):[ \t]*([!-~]([ -~]*[!-~])?)[ \t]*")


def read_headers(file: Path | None, key: str) -> dict[str, str]:
    """Return the headers of each request to a collector; none without a file. `key`: the one that names the file. Raise
    BadSettings, which names a line by its number, since its text may be a secret."""
    if file is None:
        return {}
    found = dict[str, str]()
    for number, line in enumerate(text_of_secret(file, key).splitlines(), 1):
        if not line.strip():
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise BadSettings(
                f"{key}: {file}: line {number} is not a header in ASCII, {_EXAMPLE}"
            )
        found[parts[1].lower()] = parts[2]
    if not found:
        raise BadSettings(f"{key}: {file}: has no header, {_EXAMPLE}")
    return found
