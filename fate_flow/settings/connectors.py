"""The section `connectors`: database servers to which tasks may write tables, and from which they may read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section, collected

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,49}")
_MYSQL_FORM = "is not of the form mysql://user:password@host:3306/name"


@dataclass(frozen=True)
class MysqlServer:
    """A database server for the tasks of this party's own clients."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    db: str


def read_connectors(section: Section) -> dict[str, MysqlServer]:
    found = (_connector(section, name) for name in section.names())
    return dict(filter(None, found))


@collected
def _connector(section: Section, name: Any) -> tuple[str, MysqlServer]:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSettings(f"{section.name(str(name))}: is not a name of 1 to 50 letters, digits, _ and -")
    one = section.section(name)
    engine, url = one.text("engine"), one.text("url")
    one.refuse_others()
    if engine != "MYSQL":
        raise BadSettings(f"{one.name('engine')}: {engine!r} is not MYSQL, the only supported engine")
    return name, _mysql_server(url, one.name("url"))


def _mysql_server(url: str, name: str) -> MysqlServer:
    """Return the server of a URL. Raise BadSettings without quoting the URL, since it has a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as error:
        raise BadSettings(f"{name}: {_MYSQL_FORM}; write special characters in user or password as %40") from error
    db = unquote(parts.path.strip("/"))
    if parts.scheme != "mysql" or not (parts.hostname and parts.username and db) or "/" in db:
        raise BadSettings(f"{name}: {_MYSQL_FORM}")
    return MysqlServer(parts.hostname, port, unquote(parts.username), unquote(parts.password or ""), db)
