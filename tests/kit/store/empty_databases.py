"""Empty databases on disk, of each kind that a server can have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fate_flow.store.database.opening import create_if_missing, open_database
from tests.kit.servers.mariadb import mariadb_url

KINDS = ["sqlite", pytest.param("mysql", marks=pytest.mark.mariadb)]


@contextmanager
def opened(kind: str, home: Path, name: str) -> Iterator[Any]:
    """A database that is dropped in the end."""
    if kind == "sqlite":
        found = open_database("", home)
        yield found
        found.close()
        return
    url = f"{mariadb_url()}/fate_flow_{name}_{os.getpid()}"
    create_if_missing(url)
    found = open_database(url, home)
    yield found
    found.execute_sql(f"DROP DATABASE `{found.database}`")
    found.close()
