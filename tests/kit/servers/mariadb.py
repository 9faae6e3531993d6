"""The MariaDB server that `bin/test` starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pymysql
import pytest

MYSQL = "FATE_FLOW_TEST_MYSQL_URL"


def mariadb_url() -> str:
    """Its URL without a database and without a slash at its end; where there is none, the test is skipped."""
    url = os.environ.get(MYSQL)
    if not url:
        pytest.skip(f"{MYSQL} names no MySQL or MariaDB server (bin/test starts one)")
    return url.rstrip("/")


@contextmanager
def dropped_databases(template: str, party_ids: Sequence[str]) -> Iterator[None]:
    """The databases of these parties are gone afterwards."""
    yield
    for party_id in party_ids:
        url = template.replace("{party_id}", party_id)
        with closing(open_mariadb(url)) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{urlsplit(url).path.strip('/')}`")


def open_mariadb(url: str) -> pymysql.Connection[pymysql.cursors.DictCursor]:
    address = urlsplit(url)
    return pymysql.connect(
        host=address.hostname, port=address.port or 3306, user=address.username, password=address.password or "",
        database=address.path.strip("/"), autocommit=True, cursorclass=pymysql.cursors.DictCursor,
        ssl_disabled=True,      # or each connection would read all certificates of the system
    )
