"""The section `servers`: this server is one of several of the same party."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.grammar import shown
from fate_flow.settings.reading.section import Section, collected

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")

LONGEST_POLL = 3.0
"""Seconds between two polls, each of which shows other servers of the party that this one schedules."""


@dataclass(frozen=True)
class OneOfServers:
    """A server that shares its database, and the files of jobs, with other servers of its party."""

    name: str                 # no other server of the party has it
    shared_home: Path         # the folder with these files, which all servers of the party see

    @property
    def folder(self) -> Path:
        """Return the folder with what proves who the servers of the party are, and where they listen for workers."""
        return self.shared_home / "servers"


@collected
def read_servers(section: Section, home: Path, database_url: str) -> OneOfServers | None:
    """Return what the section says; None if this is the party's only server."""
    name, shared_home = section.text("name"), section.full_path("shared_home")
    section.refuse_others()
    if not name and not shared_home:
        return None
    name_key, home_key = section.name("name"), section.name("shared_home")
    if not name or not shared_home:
        missing, other = (name_key, home_key) if not name else (home_key, name_key)
        raise BadSettings(f"{missing}: is not set, but {other} is: a server that is one of several needs both")
    if not _NAME.fullmatch(name):
        raise BadSettings(
            f"{name_key}: {shown(name)} is not a name of at most 32 lower-case letters, digits and hyphens, such as one"
        )
    if not database_url.startswith("mysql"):
        raise BadSettings(
            f"{home_key}: is set, but database.url names no MySQL or MariaDB: servers of several machines cannot share "
            "a file of SQLite"
        )
    found = OneOfServers(name, Path(shared_home))
    if found.shared_home == home:
        raise BadSettings(
            f"{home_key}: {home} is also home: each server needs a home of its own, on a disk of its machine, besides "
            "the folder that all share"
        )
    return found
