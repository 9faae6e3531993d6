"""How much of the disk the jobs of each other party take: one process measures it, and all read what it has found."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fate_flow.core.access.authority import PARTY_0
from fate_flow.server.log_sizes import Measured, jobs_in, measured
from fate_flow.services.context.ports import Context
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_FILE = "party_disk.json"
_PAUSE_SECONDS = 300.0        # between two measurements
_MEASURE_ALL = 12             # each so many measurements, folders in which nobody writes are measured again
_REST_SECONDS = 0.001
_OUTPUTS = "output_"          # with this and the job id, folders of output tables begin


class PartyDisk:
    """Measures the folders of the jobs of other parties: of their workers and documents, logs, output tables, and
    the models that they have stored. While a job is here, its models count twice: its workers have them, too."""

    def __init__(
        self, settings: Settings, context: Context, clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._context = context
        self._clock = clock
        self._rest = rest
        self._due = 0.0
        self._count = 0
        self._initiators: dict[str, str] = {}       # by job id; also of jobs of this party, which are not measured
        self._sizes: dict[str, Measured] = {}

    def measure(self) -> None:
        """Measure and write what was found, unless that was done a while ago."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _PAUSE_SECONDS
        known = {} if self._count % _MEASURE_ALL == 0 else self._sizes
        self._count += 1
        job_ids = self._jobs()
        self._find_initiators(job_ids)
        # A job that is not over may begin to write at any time, also after it wrote nothing for a while.
        running = self._context.read(lambda tx: {seat.job_id for seat in tx.open_seats()}) if known else set()
        self._sizes = {
            one: self._measured(one, None if one in running else known.get(one))
            for one in job_ids if self._initiators.get(one, PARTY_0) not in (self._context.party_id, PARTY_0)
        }  # fmt: skip
        write_uses(self._settings, self._uses())

    def _measured(self, job_id: str, known: Measured | None) -> Measured:
        found = measured(self._folders(job_id), known)
        if found is not known:
            self._rest(_REST_SECONDS)        # the scheduler, in the same process, must not wait for thousands of jobs
        return found

    def _jobs(self) -> set[str]:
        settings = self._settings
        outputs = jobs_in(settings.data_dir, _OUTPUTS)
        return {*jobs_in(settings.jobs_dir), *jobs_in(settings.log_dir), *outputs}

    def _folders(self, job_id: str) -> tuple[Path, ...]:
        settings = self._settings
        return settings.jobs_dir / job_id, settings.log_dir / job_id, settings.data_dir / f"{_OUTPUTS}{job_id}"

    def _find_initiators(self, job_ids: Iterable[str]) -> None:
        """Find whose jobs these are; those that are bound no more are left out."""
        wanted = set(job_ids)
        self._initiators = {one: party_id for one, party_id in self._initiators.items() if one in wanted}
        new = sorted(wanted - self._initiators.keys())

        def found(tx: Transaction) -> dict[str, str]:
            bindings = filter(None, map(tx.binding, new))
            return {one.job_id: one.initiator.party_id for one in bindings}

        if new:
            self._initiators |= self._context.read(found)

    def _uses(self) -> dict[str, int]:
        uses: dict[str, int] = {}
        for job_id, one in self._sizes.items():
            party_id = self._initiators[job_id]
            uses[party_id] = uses.get(party_id, 0) + one.size
        for party_id, size in self._context.read(lambda tx: tx.bytes_of_models()).items():
            if party_id not in (self._context.party_id, PARTY_0):
                uses[party_id] = uses.get(party_id, 0) + size
        return uses


def write_uses(settings: Settings, uses: Mapping[str, int]) -> None:
    path = settings.shared_run_dir / _FILE
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(uses), encoding="utf-8")
    os.replace(draft, path)


class PartyDiskUse:
    """Returns the bytes that the jobs of each other party take, as they were measured last; {} before that."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.shared_run_dir / _FILE
        self._known: tuple[int, dict[str, int]] = (0, {})

    def __call__(self) -> Mapping[str, int]:
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._known[0]:
                self._known = (changed, json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read: %s", self._path, error)
        return self._known[1]
