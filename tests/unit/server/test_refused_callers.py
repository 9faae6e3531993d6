"""What a process of the gateway refuses is in the record, and the gateway never waits for the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.refusal_counts import Cause
from fate_flow.server.listeners.refused_callers import counted_refusals
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore
from tests.kit.store.migrated_sqlite import migrated_sqlite


def settings_in(folder: Path, *, is_on: bool = True) -> Settings:
    conf = folder / "service_conf.yaml"
    conf.write_text(yaml.safe_dump({"party_id": "9999", "home": str(folder / "home"), "record": {"switch": is_on}}))
    (folder / "home").mkdir()
    return load_settings(conf)


def entries(store: SqlStore) -> list[StoredEntry]:
    with store.reading() as tx:
        return list(tx.unsealed_entries(1_000))


def test_a_flood_is_counted_while_the_database_is_locked_and_written_at_the_end(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    store = SqlStore(migrated_sqlite(settings.home))
    with counted_refusals(settings, store, "party", lambda: False) as count:
        with closing(sqlite3.connect(settings.home / "fate_flow.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for number in range(5_000):
                count(Cause.KEY, f"10.0.{number // 250}.{number % 250}", "", 0)
            count(Cause.REQUEST, "10.1.0.0", "10000", 413)
            other.execute("ROLLBACK")
        assert entries(store) == []

    found = entries(store)
    fields = [read_entry(one.content) for one in found]
    assert sum(one["count"] for one in fields) == 5_001
    assert len(found) <= 2 * 102, "100 addresses a minute, all others, and the party"
    (proved,) = [one for one in fields if "party" in one]
    assert (proved["party"], proved["route"], proved["cause"], proved["retcode"]) == ("10000", "party", "request", 413)
    assert "message" not in proved, "the address of a proved party says no more"
    store.close()


def test_without_a_record_nothing_is_counted(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, is_on=False)
    store = SqlStore(migrated_sqlite(settings.home))
    with counted_refusals(settings, store, "party", lambda: False) as count:
        count(Cause.KEY, "10.0.0.2", "", 0)

    assert entries(store) == []
    store.close()


def test_a_record_that_cannot_be_written_is_said_in_the_log_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_in(tmp_path)
    store = SqlStore(migrated_sqlite(settings.home))
    with counted_refusals(settings, store, "worker", lambda: False) as count:
        count(Cause.HANDSHAKE, "10.0.0.2", "", 0)
        with closing(sqlite3.connect(settings.home / "fate_flow.sqlite")) as other:
            other.execute("DROP TABLE t_record_entry")

    assert "1 entries about refusals could not be recorded" in caplog.text
    assert "tried again" not in caplog.text, "the process ends"
    store.close()
