"""The short form of `bin/chaos`: real servers with default settings, workers, some seconds of faults; then the books.

It settles within seconds as a rule, and within the 120 s of the promise when a `create` arrived after its job had been
given up: such a row stays for `limits.ready_seconds`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.chaos.faults import draw
from tests.chaos.run import run

pytestmark = pytest.mark.timeout(900)

MYSQL = "FATE_FLOW_TEST_MYSQL_URL"
SEED, SECONDS, PARTIES = 4, 8.0, 3


def tell(text: str) -> None:
    print(text, file=sys.stderr)


def suffers(root: Path, with_mariadb: bool) -> None:
    outcome = run(root, SEED, SECONDS, PARTIES, with_mariadb, tell)
    assert not outcome.violations, outcome.figures()
    assert outcome.jobs["accepted"], outcome.figures()
    assert outcome.faults, outcome.figures()


@pytest.mark.heavy
def test_everything_settles_on_sqlite(tmp_path: Path) -> None:
    suffers(tmp_path, with_mariadb=False)


@pytest.mark.heavy
@pytest.mark.mariadb
def test_everything_settles_on_mariadb(tmp_path: Path) -> None:
    if not os.environ.get(MYSQL):      # this test starts one of its own, which it may kill
        pytest.skip(f"{MYSQL} names no MySQL or MariaDB server, so none can be had (bin/test starts one)")
    suffers(tmp_path, with_mariadb=True)


def test_the_same_seed_draws_the_same_faults() -> None:
    parties = ("1", "2", "3")
    assert draw(7, 60.0, parties, with_database=True) == draw(7, 60.0, parties, with_database=True)
    assert draw(7, 60.0, parties, with_database=True) != draw(8, 60.0, parties, with_database=True)


@pytest.mark.parametrize("seed", range(20))
def test_every_fault_is_over_at_the_end(seed: int) -> None:
    faults = draw(seed, 30.0, ("1", "2", "3"), with_database=False)
    assert all(fault.at + fault.seconds <= 30.01 for fault in faults)
    assert all(fault.party_id != fault.other and fault.kind != "kill database" for fault in faults)
    assert not any(fault.outlives_leases for fault in faults)


@pytest.mark.parametrize("seed", range(20))
def test_a_long_run_has_one_partition_that_outlives_the_leases(seed: int) -> None:
    faults = draw(seed, 180.0, ("1", "2", "3"), with_database=False)
    [longest] = [fault for fault in faults if fault.outlives_leases]
    assert longest.kind in ("partition", "one way")
    assert longest.at + longest.seconds <= 180.0
    meanwhile = [fault for fault in faults if longest.at <= fault.at < longest.at + longest.seconds]
    spared = {fault.party_id for fault in meanwhile if fault.kind == "kill server"}
    assert spared.isdisjoint({longest.party_id, longest.other}), "a scheduler that begins anew counts anew"
