"""A process that does not schedule, with all that it consists of."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.relay.spool_session import Session
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.runtime import Wakeups, open_spool, prepare_home
from fate_flow.server.scheduling import SchedulerLoop
from fate_flow.settings.settings import Settings
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore

JOB_ID = "20200101000000000000"
OVER = Session(JOB_ID, f"{JOB_ID}_a", 0, "a1b2c3d4", "host", "10000")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a home whose database says that a process of another home schedules."""
    found = Settings("9999", tmp_path / "home", log_dir=tmp_path / "home" / "logs")
    prepare_home(found)
    store = SqlStore(open_database(found.database_url, found.home))
    upgrade(store.database)
    with store.transaction() as tx:
        assert tx.scheduler() == ("", 0)
        assert tx.take_scheduler_lease("", 0, "another-home-1")
    store.close()
    return found


def test_a_process_that_stands_by_drops_what_is_left_in_the_spool_of_its_own_home(settings: Settings) -> None:
    """Who schedules has another home, and does not see it."""
    wakeups = Wakeups(Wakeup(), Wakeup(), Wakeup())
    spool = open_spool(settings, wakeups.exchange)
    assert spool.open(OVER, (("guest", "9999"),), "its token")
    loop = SchedulerLoop(settings, wakeups, "http://127.0.0.1:1", "home-1")
    loop._round()
    assert not loop._scheduler.is_in_charge
    assert spool.session_of("its token") is None
    loop._senders.close()
    loop._effect_runner.finish()
    loop._record.close()
