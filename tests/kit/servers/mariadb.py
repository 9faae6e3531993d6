"""The MariaDB server that `bin/test` starts."""

from __future__ import annotations

import os

import pytest

MYSQL = "FATE_FLOW_TEST_MYSQL_URL"


def mariadb_url() -> str:
    """Its URL without a database and without a slash at its end; where there is none, the test is skipped."""
    url = os.environ.get(MYSQL)
    if not url:
        pytest.skip(f"{MYSQL} names no MySQL or MariaDB server (bin/test starts one)")
    return url.rstrip("/")
