"""Read a mapping of the configuration key by key.

Problems are collected, so that all of them are reported at once. Until then, a wrong value reads as its default: the
caller must check the problems at the end before it uses any value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

from fate_flow.core.model.errors import BadSettings
from fate_flow.jobspec.text.document import nearest

T = TypeVar("T")
P = ParamSpec("P")


class Reader(Protocol):
    """A reader that collects problems."""

    problems: list[str]


R = TypeVar("R", bound=Reader)

_SECRET = re.compile("secret|passw|token|credential|url$", re.IGNORECASE)
"""Keys whose value is no text for a log: a secret, or a URL, in which a password or a path may be one."""
_LOGIN = re.compile("[^/@]*@")


def collected(read: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """Make a method of a Reader collect the BadSettings that it raises; its result must then not be used."""

    @wraps(read)
    def noting(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(self, *args, **kwargs)
        except BadSettings as error:
            self.problems.append(error.message)
            return cast(T, None)

    return noting


class Section:
    """One mapping of the file: it reads keys with their types, and remembers which keys were read."""

    def __init__(self, values: Any, path: str, problems: list[str], folder: Path) -> None:
        self.problems = problems
        self.folder = folder      # the folder of the file, at which its relative paths begin
        self._path = path
        self._seen: set[str] = set()
        is_mapping = isinstance(values, dict)
        self._values: dict[Any, Any] = values if is_mapping else {}
        if not is_mapping:
            found = "a list" if isinstance(values, list) else "a single value"        # which may be a secret
            problems.append(f"{path}: is {found} and not a mapping of keys")

    @property
    def values(self) -> Mapping[Any, Any]:
        """Return the whole mapping, as it is in the file."""
        return self._values

    @property
    def path(self) -> str:
        """Return the path of the section in the file; empty for the whole file."""
        return self._path

    def name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def names(self) -> list[Any]:
        return list(self._values)

    def section(self, key: str) -> Section:
        return Section(self.get(key, {}), self.name(key), self.problems, self.folder)

    def text(self, key: str, default: str = "") -> str:
        value = self.get(key, default)
        return self._wrong(key, "is not text", default) if isinstance(value, (dict, list)) else str(value)

    def full_path(self, key: str) -> str:
        """Return a path, which may be relative to the folder of the file; "" if there is none."""
        text = self.text(key)
        return str(resolved(self.folder, text)) if text else ""

    def path_with_links(self, key: str) -> Path | None:
        """Return a path like `full_path`, whose links stay: the Python of a virtual environment is one. None if there
        is none."""
        text = self.text(key)
        return Path(os.path.abspath(self.folder / Path(text).expanduser())) if text else None

    def number(self, key: str, default: float, minimum: float = 0) -> float:
        value = self.get(key, default)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53
        if not is_number or not isfinite(value) or value < minimum:
            return self._wrong(key, f"is not a number of at least {minimum:g}", default)
        return float(value)

    def share(self, key: str, default: float) -> float:
        """Return a share: above 0 and up to 1."""
        value = self.number(key, default)
        if not 0 < value <= 1:
            return self._wrong(key, "is not a share above 0 and up to 1, such as 0.5", default)
        return value

    def whole(self, key: str, default: int, minimum: int = 0, maximum: int = 2**62) -> int:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            return self._wrong(key, f"is not a whole number from {minimum} to {maximum}", default)
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        return value if isinstance(value, bool) else self._wrong(key, "is neither true nor false", default)

    def refuse_others(self) -> None:
        known = sorted(self._seen)
        for key in sorted(str(one) for one in set(self._values) - self._seen):
            hint = nearest(key, known)
            self.problems.append(f"{self.name(key)}: no such key{hint}; known here: {', '.join(known)}")

    def _wrong(self, key: str, why: str, default: T) -> T:
        value = "" if _SECRET.search(key) else f"{self._values.get(key)!r} "
        self.problems.append(f"{self.name(key)}: {value}{why}")
        return default


def resolved(folder: Path, text: str) -> Path:
    """Return the absolute path of a path in a configuration file in this folder."""
    return (folder / Path(text).expanduser()).resolve()


def split_url(url: str, name: str) -> SplitResult:
    """Return the parts of a URL with a valid port. Raise BadSettings, without the URL, which may have a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadSettings(
            f"{name}: is no URL with a valid host and port; write special characters of a password in the form %40"
        ) from error
    return parts


def without_login(url: str) -> str:
    """Return a URL as an error may show it."""
    return repr(_LOGIN.sub("...@", url, count=1))
