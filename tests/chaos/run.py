"""One run of chaos: load and faults for a while, then calm, and then the books."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos import books
from tests.chaos.faults import Storm, draw
from tests.chaos.load import Load, has_tables
from tests.chaos.parties import DATABASE_ERRORS, Keeper, MariaDb, Party, own_database, running_parties
from tests.chaos.proxy import ADDRESS, Proxy

SETTLE_SECONDS = 120.0
SAMPLE_SECONDS = 0.5
LOOK_SECONDS = 0.25
TELL_SECONDS = 10.0
RAIN = 0.3                       # the share of requests that meet a fault while it rains
JOB_PAUSE_SECONDS = 0.5
FIRST_PARTY = 9_999


@dataclass
class Outcome:
    """What a run has shown."""

    seed: int
    database: str
    parties: int
    duration: float
    settled_seconds: float | None = None         # None: it did not
    jobs: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    unconfirmed: int = 0
    left_alone: int = 0
    failures: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    samples: int = 0
    violations: list[str] = field(default_factory=list)
    tracebacks: Counter[str] = field(default_factory=Counter)
    homes: str = ""                              # where they are kept after a failure

    def document(self) -> dict[str, Any]:
        return {key: dict(value) if isinstance(value, Counter) else value for key, value in vars(self).items()}

    def figures(self) -> str:
        """For people."""
        settled = "it did NOT settle" if self.settled_seconds is None else f"settled after {self.settled_seconds:.1f} s"
        lines = [
            f"seed {self.seed}, {self.parties} parties on {self.database}, {self.duration:g} s of faults: {settled},"
            f" {len(self.violations)} violations",
            f"  jobs: {_listed(self.jobs)}",
            f"  ended: {_listed(self.ends)}; with unconfirmed parties: {self.unconfirmed};"
            f" seats that lost their initiator: {self.left_alone}",
            f"  faults ({self.faults.total()}): {_listed(self.faults)}",
            f"  messages: {_listed(self.messages)}",
            f"  servers started again: {self.starts}; looks at the balance meanwhile: {self.samples}",
        ]
        if self.violations:
            lines += [books.shown(self.violations), f"  the homes are kept: {self.homes}"]
        return "\n".join(lines)


def run(
    root: Path, seed: int, duration: float, parties: int, with_mariadb: bool, tell: Callable[[str], None]
) -> Outcome:
    """Everything that was started is ended again; the homes stay when something was wrong."""
    outcome = Outcome(seed, "MariaDB" if with_mariadb else "SQLite", parties, duration)
    party_ids = tuple(str(FIRST_PARTY + number) for number in range(parties))
    folder = root / f"chaos-{seed}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    outcome.homes = str(folder)
    with own_database(folder, with_mariadb) as (database, url), _proxy(party_ids, seed) as proxy:
        routes: dict[str, dict[str, str]] = {party_id: {} for party_id in party_ids}
        for (frm, to), link in proxy.links.items():
            routes[frm][to] = f"http://{ADDRESS}:{link.port}"
        template = f"{url}/flow_{{party_id}}" if url else ""
        with running_parties(folder, party_ids, template, routes=routes) as servers:
            for (_, to), link in proxy.links.items():
                link.upstream = int(servers[to].url.rsplit(":", 1)[1])
            has_tables(servers)
            _suffer(outcome, servers, proxy, database, tell)
    if not outcome.violations:
        shutil.rmtree(folder)
        outcome.homes = ""
    return outcome


def _suffer(
    outcome: Outcome, servers: Mapping[str, Party], proxy: Proxy, database: MariaDb | None, tell: Callable[[str], None]
) -> None:
    faults = draw(outcome.seed, outcome.duration, tuple(servers), database is not None)
    keepers = {party_id: Keeper(party) for party_id, party in servers.items()}
    try:
        storm = Storm(servers, keepers, proxy, database, tell)
        with _watched(outcome, servers):
            load = Load(servers, outcome.seed, JOB_PAUSE_SECONDS)
            try:
                storm.blow(faults, outcome.duration)
            finally:
                calm_since = time.monotonic()
                tell(f"calm; {_listed(load.counts)}")
                load.end()
            _settle(outcome, servers, load, calm_since, tell)
        outcome.jobs, outcome.faults, outcome.messages = load.counts, storm.counts, proxy.counts()
        outcome.ends, outcome.unconfirmed = books.ends(servers), books.unconfirmed(servers)
        outcome.failures, outcome.left_alone = books.failures(servers), books.left_alone(servers)
        outcome.violations += books.unexplained(outcome.failures, any(fault.outlives_leases for fault in faults))
        outcome.starts = sum(keeper.starts for keeper in keepers.values())
        for party in servers.values():
            outcome.tracebacks += books.tracebacks(party)
    finally:
        for keeper in keepers.values():
            keeper.close()


def _settle(
    outcome: Outcome, servers: Mapping[str, Party], load: Load, calm_since: float, tell: Callable[[str], None]
) -> None:
    """The books balance from some moment on, which comes within the time."""
    described = 0.0
    while True:
        try:
            left = books.unsettled(servers, load.accepted)
        except DATABASE_ERRORS as error:     # a server may still be on its way up
            left = [f"the books cannot be read: {error}"]
        seconds = time.monotonic() - calm_since
        if not left:
            outcome.settled_seconds = round(seconds, 2)
            return
        if seconds > SETTLE_SECONDS:
            outcome.violations += left
            return
        if seconds > described + TELL_SECONDS:
            described = seconds
            tell(f"not settled after {seconds:.0f} s:\n{books.shown(left)}")
        time.sleep(LOOK_SECONDS)


@contextmanager
def _watched(outcome: Outcome, servers: Mapping[str, Party]) -> Iterator[None]:
    """Meanwhile the balance is looked at again and again: it has to hold at every commit."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(SAMPLE_SECONDS):
            for party in servers.values():
                try:
                    outcome.violations += books.imbalance(party)
                    outcome.samples += 1
                except DATABASE_ERRORS:      # it is being restarted
                    continue

    thread = threading.Thread(target=watch, name="watch")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def _proxy(party_ids: tuple[str, ...], seed: int) -> Iterator[Proxy]:
    proxy = Proxy(party_ids, seed, RAIN)
    try:
        yield proxy
    finally:
        proxy.close()


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what.strip()}" for what, count in sorted(counts.items())) or "none"
