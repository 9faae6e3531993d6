"""The line format of FATE Flow 1.6, and the characters that a message may contain.

    [LEVEL] [YYYY-MM-DD HH:MM:SS,mmm] [pid:thread] - file.py[line:N]: message

One record is one line, so that no sender can forge a second one: text from a client, a peer or a worker is escaped
before it becomes part of a message (`one_line`). A few records span lines by design, as in 1.6: the raw text of a
response, and tracebacks (`many_lines`). There newlines stay, and a line that begins like a record is indented by one
space, so that it cannot be taken for a record.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from enum import Enum, IntEnum
from threading import get_ident
from typing import Any

MAX_CHARS = 1 << 20
"""Longer messages are cut, so that a peer's answer cannot fill the disk with one line."""


class Level(IntEnum):
    """The levels FATE uses, with the numbers of `logging`."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


# C0, DEL and C1; marks and overrides of writing direction, line and paragraph separators, invisible spaces, BOM;
# surrogates, which no encoding can write.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
_UNSAFE_IN_LINE = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINES = re.compile(rf"(?![\t\n])[{_UNSAFE}]")
_RECORD_START = re.compile(r"^(?=\[[A-Z]{4,8}\] \[)", re.MULTILINE)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def record(level_name: str, at: float, origin: str, source: str, line: int, message: str) -> bytes:
    """Return one record as it is written to the file. The message is written unchanged, so it must be safe already."""
    text = f"[{level_name}] [{time_text(at)}] [{origin}] - {source}[line:{line}]: {cut(message)}\n"
    return text.encode("utf-8", "backslashreplace")


def time_text(at: float) -> str:
    """Return the local time with comma and milliseconds, as `logging` writes it."""
    global _second
    second = int(at)
    known = _second
    if known[0] != second:
        known = _second = (second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second)))
    return known[1] + _MILLISECONDS[int((at - second) * 1000)]


_second = (-1, "")             # replaced as a whole: threads see the old pair or the new one
_MILLISECONDS = tuple(f",{number:03d}" for number in range(1001))      # 1000: a product that was rounded up


def origin_here() -> str:
    """Return process and thread of the caller."""
    thread = get_ident()
    return _origins.get(thread) or _origins.setdefault(thread, f"{os.getpid()}:{thread}")


_origins: dict[int, str] = {}
os.register_at_fork(after_in_child=_origins.clear)


def source_here(depth: int) -> tuple[str, int]:
    """Return file name and line, `depth` callers above the caller of this function."""
    try:
        frame = sys._getframe(depth + 1)
    except ValueError:
        return "unknown", 0
    path = frame.f_code.co_filename
    name = _file_names.get(path)
    if name is None:
        name = _file_names[path] = one_line(os.path.basename(path))
    return name, frame.f_lineno


_file_names: dict[str, str] = {}


def one_line(text: str) -> str:
    """Return the text with every control character escaped, also newlines, so that it stays on one line."""
    return text if text.isprintable() else _UNSAFE_IN_LINE.sub(_escaped, text)


def many_lines(text: str) -> str:
    """Return the text with its newlines and tabs, but without a line that begins like a record."""
    return indent_records(_UNSAFE_IN_LINES.sub(_escaped, text))


def indent_records(text: str) -> str:
    """Return the text with a space before every line that begins like a record."""
    return _RECORD_START.sub(" ", text)


def cut(text: str) -> str:
    """Return the text, cut at `MAX_CHARS` with a note about the number of missing characters."""
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}... ({len(text) - MAX_CHARS} characters cut)"


def text_of(value: object) -> str:
    """Return the value as 1.6 prints it: like Python, but an enum member as its value, also within containers."""
    render = _TEXTS.get(type(value))
    if render is not None:
        return render(value)
    return text_of(value.value) if isinstance(value, Enum) else str(value)


def _container_text(value: object) -> str:
    """Return a container as Python prints it; a peer's body may be nested too deeply for Python."""
    try:
        text = str(value)
        return str(_unwrapped(value)) if "<" in text else text   # without "<" it contains no enum member
    except RecursionError:
        return "(nested too deeply to be printed)"


def _unwrapped(value: object) -> object:
    """Return the same containers with enum members replaced by their values."""
    if isinstance(value, Enum):
        return value.value
    if type(value) is dict:
        return {_unwrapped(key): _unwrapped(item) for key, item in value.items()}
    for kind in (list, tuple, set, frozenset):
        if type(value) is kind:
            return kind(_unwrapped(item) for item in value)
    return value


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


_TEXTS: dict[type, Callable[[Any], str]] = {
    str: str,
    int: str,
    bool: str,
    type(None): str,
    **dict.fromkeys((dict, list, tuple, set, frozenset), _container_text),
}
