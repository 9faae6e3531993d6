"""Readers of single fields that several bodies and answers have.

A reader of a command's field raises BadRequest for a wrong value, so the command is refused. A reader of another
party's statement (a message, a cause, a count) replaces a wrong value by a default, so that it never stops this party.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import MAX_VERSION, check_party_id, check_role, check_version, shown
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import sanitized

RECORD_SALT = "record_salt"
"""The key of a body with the salt of what both parties commit to in their records."""

LONGEST_TEXT = 4_000             # characters
_HIGHEST_EXIT_CODE = 255
_LONGEST_SECONDS = 1e9
_MOST_ORDER = 2**62
_LATEST = 2**47                  # milliseconds: in the year 6429; Python and MariaDB have dates up to 9999
_SALT = re.compile(r"[0-9a-f]{64}")


def salt_in(body: Mapping[str, Any]) -> str:
    """Return the salt for the record; empty if there is no valid one."""
    value = body.get(RECORD_SALT)
    return value if isinstance(value, str) and _SALT.fullmatch(value) else ""


def text_in(body: Mapping[str, Any], key: str) -> str:
    return sanitized(body.get(key), LONGEST_TEXT)


def reason_in(body: Mapping[str, Any]) -> Reason | None:
    """Read a reason; None if it is missing or unknown."""
    try:
        return Reason(body.get("reason"))
    except ValueError:
        return None


def cause_in(body: Mapping[str, Any]) -> str:
    """Read the party that a body names as the cause (`host 10000`); empty if it names no valid one."""
    value = body.get("caused_by")
    role, _, party_id = value.partition(" ") if isinstance(value, str) else ("", "", "")
    try:
        return str(Party(check_role(role), check_party_id(party_id)))
    except BadRequest:
        return ""


def exit_code_in(body: Mapping[str, Any]) -> int | None:
    """Read the exit code of the worker; None if there is none."""
    code = body.get("exit_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= _HIGHEST_EXIT_CODE else None


def moment_in(body: Mapping[str, Any], key: str) -> int:
    """Read a time in milliseconds since the epoch; 0 if it is none, or one of a year that calendars do not have."""
    value = body.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value < _LATEST else 0


def parties_in(value: object, parties: Iterable[Party]) -> tuple[str, ...]:
    """Return those of `parties` that the list `value` names, in order."""
    named = value if isinstance(value, list) else []
    return tuple(str(party) for party in sorted(parties) if str(party) in named)


def count_in(data: object, key: str) -> int | None:
    """Return a count from another party, such as its free cores; None if it is missing or not a count."""
    value = data.get(key) if isinstance(data, Mapping) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_VERSION
    return value if is_count else None


def whole_in(body: Mapping[str, Any], key: str) -> int | None:
    """Read a counter; None if it is missing. Raises BadRequest if it does not fit a column."""
    value = body.get(key)
    return None if value is None else check_version(value, key)


def seconds_in(body: Mapping[str, Any], key: str) -> float | None:
    """Read a duration in seconds; None if it is missing. Raises BadRequest."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LONGEST_SECONDS:
        raise BadRequest(f"{key}: {shown(value)} is not a number of seconds from 0 to {_LONGEST_SECONDS:g}")
    return float(value)


def order_in(body: Mapping[str, Any]) -> int | None:
    """Read the job's place in the queue of its initiator; None if it is missing, as in plain v1. Raises BadRequest."""
    value = body.get("order")
    if value is None:
        return None
    if type(value) is not int or abs(value) > _MOST_ORDER:
        raise BadRequest(f"order: {shown(value)} is not a whole number from -{_MOST_ORDER} to {_MOST_ORDER}")
    return value
