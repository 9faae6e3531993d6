"""One strict check for each kind of name from outside that reaches a path, a log line, SQL or argv.

Each check takes any value that a caller sent. It returns the normalised value, or raises BadRequest, which names key,
value and what is right. Patterns match the whole value (`$` would let a trailing newline through) and only ASCII (`\\d`
would let other digits through). No name may begin with `-` or `.`: it could be read as an option, or as the parent
folder. The sizes are those of the columns that store the names (reference: schema-v1, "Sizes that bite").
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fate_flow.core.model.errors import BadRequest

ROLES = ("guest", "host", "arbiter", "local")
MAX_VERSION = 2**31 - 1

_JOB_ID = re.compile(r"[0-9]{14,25}")                       # begins with a date and time, to the second
_PARTY_ID = re.compile(r"[0-9]{1,10}")
_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,29}")
_PIECE_OF_DAG = "1 to 30 of letters, digits, _ and -, no - first; FATE's own tables have room for 30"
_TASK_ID = re.compile(rf"{_JOB_ID.pattern}_{_COMPONENT.pattern}")
_PORT = re.compile(r"[a-z][a-z0-9]{0,19}")                  # a part of names of variables, without their separator
_LONGEST_TABLE_PIECE = 200                                  # for a file name, with room for a suffix
_PLAIN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_MODEL_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.#-]{0,99}")
_HEX_ID = re.compile(r"[0-9a-f]{8,64}")
_DIGEST = re.compile(r"[0-9a-f]{32}(?:[0-9a-f]{32})?")
_VERSION = re.compile(r"[0-9]{1,10}")
_DIGITS = re.compile(r"-?[0-9]{1,18}")
_TOPIC_CHARS = 256
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_|-]{1,60}")
_SHOWN_LENGTH = 60


def check_job_id(value: object, key: str = "job_id") -> str:
    """Check a job id: only digits."""
    return _match(_JOB_ID, value, key, "a job id (14 to 25 digits)")


def check_task_id(value: object, key: str = "task_id") -> str:
    """Check a task id: a job id, an underscore and a component name."""
    return _match(_TASK_ID, value, key, "a task id (<job id>_<component name>)")


def check_port_name(value: object, key: str = "port") -> str:
    """Check the name of a port of a task."""
    return _match(_PORT, value, key, "the name of a port (1 to 20 lower case letters and digits, a letter first)")


def check_component_name(value: object, key: str = "component_name") -> str:
    """Check the name of a component of a DAG."""
    return _match(_COMPONENT, value, key, f"a component name ({_PIECE_OF_DAG})")


def check_output_name(value: object, key: str = "data_name") -> str:
    """Check the name (alias) of an output or the key of an input, by the rule for component names."""
    return _match(_COMPONENT, value, key, f"an output name ({_PIECE_OF_DAG})")


def check_role(value: object, key: str = "role") -> str:
    """Check a role: one of `ROLES`."""
    if isinstance(value, str) and value in ROLES:
        return value
    raise BadRequest(f"{key}: {shown(value)} is not one of {', '.join(ROLES)}")


def check_party_id(value: object, key: str = "party_id") -> str:
    """Check a party id, and return it as text without leading zeros: clients send it as text or as a number."""
    return str(int(_match(_PARTY_ID, _as_text(value), key, "a party id (1 to 10 digits)", value)))


def check_text(value: str, key: str) -> str:
    """Check that text can be encoded: JSON can express half surrogates, which no database stores."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{key}: {shown(value)} is not text: it has half of a character") from None
    return value


def check_model_id(value: object, key: str = "model_id") -> str:
    """Check the id of a stored model, which is also the name of a folder."""
    what = "the id of a model (1 to 100 letters, digits, _ . # and -, a letter, digit or _ first)"
    return _match(_MODEL_ID, _as_text(value), key, what, value)


def check_model_version(value: object, key: str = "model_version") -> int:
    """Check the version of a stored model: a whole number."""
    return check_version(value, key)


LAST, REFUSE = "last", "refuse"
DUPLICATE_IDS = (LAST, REFUSE)
"""What an upload does with several rows of one id: keep the last one, or refuse the file."""
TABLE_PIECE = (
    "printable text of at most 200 bytes, percent-encoded, without a space at its end, other than '.' and '..'"
)


def check_table_piece(value: object, key: str) -> str:
    """Check the name or namespace of a table. FATE takes any text; here it must fit a file name, percent-encoded. For
    MariaDB, two names that differ in spaces at the end are one."""
    is_text = isinstance(value, str) and value.isprintable() and not value.endswith(" ")
    if not isinstance(value, str) or not is_text or value in ("", ".", "..") or _is_too_long(value):
        raise BadRequest(f"{key}: {shown(value)} is not {TABLE_PIECE}")
    return value


def _is_too_long(piece: str) -> bool:
    """Return whether the percent-encoded form is too long: each byte that is not plain takes three characters."""
    return sum(1 if byte in _PLAIN_BYTES else 3 for byte in piece.encode()) > _LONGEST_TABLE_PIECE


def check_worker_id(value: object, key: str = "worker_id") -> str:
    """Check a worker id: lower case hex digits."""
    return _match(_HEX_ID, value, key, "a worker id (8 to 64 lower case hex digits)")


def check_incarnation(value: object, key: str = "incarnation") -> str:
    """Check an incarnation, the random id of an attempt: lower case hex digits."""
    return _match(_HEX_ID, value, key, "an incarnation (8 to 64 lower case hex digits)")


def check_digest(value: object, key: str = "digest") -> str:
    """Check the digest of a document: all 64 hex digits of its SHA-256, or the first 32."""
    return _match(_DIGEST, value, key, "the digest of a document (its first 32 lower case hex digits, or all 64)")


def check_version(value: object, key: str = "task_version") -> int:
    """Check a version, run or other counter: a whole number that fits its column."""
    what = f"a whole number from 0 to {MAX_VERSION}"
    number = int(_match(_VERSION, _as_text(value), key, what, value))
    if number > MAX_VERSION:
        raise BadRequest(f"{key}: {shown(value)} is not {what}")
    return number


def check_whole(value: object, key: str, minimum: int, maximum: int) -> int:
    """Check a whole number, given as a number or as text."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not minimum <= value <= maximum:
        raise BadRequest(f"{key}: {shown(value)} is not a whole number from {minimum} to {maximum}")
    return value


def check_topic(topic: str) -> str:
    """Check the topic of a message between workers: any text of 1 to 256 characters."""
    if not 0 < len(topic) <= _TOPIC_CHARS:
        raise BadRequest(f"topic: {len(topic)} characters, 1 to {_TOPIC_CHARS} are allowed")
    return topic


def shown(value: object) -> str:
    """Return any value as one short line of printable text, for messages and logs."""
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
    """Return a key for the path in a message: as it is if that is unambiguous, else quoted and cut."""
    return key if isinstance(key, str) and _PLAIN_KEY.fullmatch(key) else shown(key)


def _match(pattern: re.Pattern[str], text: object, key: str, what: str, value: object = None) -> str:
    if isinstance(text, str) and pattern.fullmatch(text):
        return text
    raise BadRequest(f"{key}: {shown(text if value is None else value)} is not {what}")


def _as_text(value: object) -> object:
    """Return a number as text; any other value, also `True`, unchanged."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64
    return str(value) if is_number else value
