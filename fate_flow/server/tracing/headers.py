"""The headers of the requests to a collector, such as a token: from a private file."""

from __future__ import annotations

import re

from fate_flow.core.model.errors import BadSettings
from fate_flow.server.notifying.webhook import text_of_secret
from fate_flow.settings.traces import TraceSettings

_KEY = "traces.headers_file"
_EXAMPLE = "such as authorization: Bearer x"
_LINE = re.compile(r"([0-9A-Za-z-]+):[ \t]*([!-~]([ -~]*[!-~])?)[ \t]*")


def read_headers(traces: TraceSettings) -> dict[str, str]:
    """Return the headers of each request to the collector. Raise BadSettings, which names a line by its number, since
    its text may be a secret."""
    if traces.headers_file is None:
        return {}
    found = dict[str, str]()
    for number, line in enumerate(text_of_secret(traces.headers_file, _KEY).splitlines(), 1):
        if not line.strip():
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            raise BadSettings(
                f"{_KEY}: {traces.headers_file}: line {number} is not a header in ASCII, {_EXAMPLE}"
            )
        found[parts[1].lower()] = parts[2]
    if not found:
        raise BadSettings(f"{_KEY}: {traces.headers_file}: has no header, {_EXAMPLE}")
    return found
