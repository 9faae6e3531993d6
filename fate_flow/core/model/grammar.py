"""What may reach a path, a log line, SQL or argv: one strict check for each kind of name.

Each check takes whatever a caller sent and returns the normalised value, or raises BadRequest naming key, value and
what is right. Patterns are matched as a whole (`$` would let a trailing newline through) and in ASCII (`\\d` would let
other digits through). No name may begin with `-` or `.`: it could be read as an option, or as a folder above.
Sizes are those of the columns the names end up in (reference: schema-v1, "Sizes that bite").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fate_flow.core.model.errors import BadRequest

ROLES = ("guest", "host", "arbiter", "local")
MAX_VERSION = 2**31 - 1

_JOB_ID = re.compile(r"[0-9]{14,25}")                       # begins with a time of day to the second
_PARTY_ID = re.compile(r"[0-9]{1,10}")
_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,29}")
_PIECE_OF_DAG = "1 to 30 of letters, digits, _ and -, no - first; FATE's own tables have room for 30"
_TASK_ID = re.compile(rf"{_JOB_ID.pattern}_{_COMPONENT.pattern}")
_LONGEST_TABLE_PIECE = 200                                  # a file name, with room for a suffix
_PLAIN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_HEX_ID = re.compile(r"[0-9a-f]{8,64}")
_DIGEST = re.compile(r"[0-9a-f]{32}(?:[0-9a-f]{32})?")
_VERSION = re.compile(r"[0-9]{1,10}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_|-]{1,60}")
_SHOWN_LENGTH = 60


def check_job_id(value: object, key: str = "job_id") -> str:
    """The job id: digits alone."""
    return _match(_JOB_ID, value, key, "a job id (14 to 25 digits)")


def check_task_id(value: object, key: str = "task_id") -> str:
    """The task id: a job id and a component name."""
    return _match(_TASK_ID, value, key, "a task id (<job id>_<component name>)")


def check_component_name(value: object, key: str = "component_name") -> str:
    """The name of a component of a DAG."""
    return _match(_COMPONENT, value, key, f"a component name ({_PIECE_OF_DAG})")


def check_output_name(value: object, key: str = "data_name") -> str:
    """The name (alias) of an output or the key of an input: as strict as a component name."""
    return _match(_COMPONENT, value, key, f"an output name ({_PIECE_OF_DAG})")


def check_role(value: object, key: str = "role") -> str:
    """One of the four roles."""
    if isinstance(value, str) and value in ROLES:
        return value
    raise BadRequest(f"{key}: {shown(value)} is not one of {', '.join(ROLES)}")


def check_party_id(value: object, key: str = "party_id") -> str:
    """The party id as text without leading zeros, since clients send it as text and as a number."""
    return str(int(_match(_PARTY_ID, _as_text(value), key, "a party id (1 to 10 digits)", value)))


def check_text(value: str, key: str) -> str:
    """Text that can be written down: JSON can spell halves of characters, which no database takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{key}: {shown(value)} is not text: it has half of a character") from None
    return value


LAST, REFUSE = "last", "refuse"
DUPLICATE_IDS = (LAST, REFUSE)
"""What an upload makes of several rows with one id: it keeps the last of them, or refuses the file."""
TABLE_PIECE = "printable text of at most 200 bytes, percent-encoded, other than '.' and '..'"


def check_table_piece(value: object, key: str) -> str:
    """The name of a table or its namespace. FATE takes any text; this is what a file name can hold, percent-encoded."""
    if not isinstance(value, str) or not value.isprintable() or value in ("", ".", "..") or _is_too_long(value):
        raise BadRequest(f"{key}: {shown(value)} is not {TABLE_PIECE}")
    return value


def _is_too_long(piece: str) -> bool:
    """As the piece of a path, where a byte that is not plain takes three."""
    return sum(1 if byte in _PLAIN_BYTES else 3 for byte in piece.encode()) > _LONGEST_TABLE_PIECE


def check_worker_id(value: object, key: str = "worker_id") -> str:
    """The id of a worker: lower case hex."""
    return _match(_HEX_ID, value, key, "a worker id (8 to 64 lower case hex digits)")


def check_incarnation(value: object, key: str = "incarnation") -> str:
    """The random id of an attempt: lower case hex."""
    return _match(_HEX_ID, value, key, "an incarnation (8 to 64 lower case hex digits)")


def check_digest(value: object, key: str = "digest") -> str:
    """Of a document: SHA-256 in lower case hex, or as many of its first digits as name it."""
    return _match(_DIGEST, value, key, "the digest of a document (its first 32 lower case hex digits, or all 64)")


def check_version(value: object, key: str = "task_version") -> int:
    """A version, run or other counter: a whole number that fits its column."""
    what = f"a whole number from 0 to {MAX_VERSION}"
    number = int(_match(_VERSION, _as_text(value), key, what, value))
    if number > MAX_VERSION:
        raise BadRequest(f"{key}: {shown(value)} is not {what}")
    return number


def shown(value: object) -> str:
    """The value as one short line of printable text, whatever it is: fit for a message and for a log."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _SHOWN_LENGTH else f"{value[:_SHOWN_LENGTH]!r}..."
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):                     # Python refuses to write very long ones
        return str(value) if value.bit_length() <= 128 else "a very long number"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"


def shown_key(key: object) -> str:
    """A key as it stands in a path: plain where that is unmistakable, else quoted and cut."""
    return key if isinstance(key, str) and _PLAIN_KEY.fullmatch(key) else shown(key)


def _match(pattern: re.Pattern[str], text: object, key: str, what: str, value: object = None) -> str:
    if isinstance(text, str) and pattern.fullmatch(text):
        return text
    raise BadRequest(f"{key}: {shown(text if value is None else value)} is not {what}")


def _as_text(value: object) -> object:
    """A number as its digits; all else, `True` too, as it came."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if is_number else value
