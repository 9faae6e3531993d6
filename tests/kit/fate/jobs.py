"""Jobs of FATE's components at servers of parties, and what they leave there."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.provider_process.task_files import RESULT, TABLES_MADE
from fate_flow.components.tables.table import Table
from tests.kit.fate.rows import ID
from tests.kit.servers.heavy import submitted
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster

FATE = "2.2.0"
CENTRAL = Path(__file__).with_name("central.py")
SECONDS = 600.0
AT_GUEST, AT_HOST, AT_ARBITER = f"guest {GUEST}", f"host {HOST}", f"arbiter {OTHER}"

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Fate:
    """Parties with FATE's components, and FATE's Python for computations beside them."""

    parties: Cluster
    python: Path

    def run(self, text: str) -> Run:
        """The job of this job file, which has succeeded at every party."""
        job_id = submitted(self.parties, text)
        try:
            self.parties.wait(job_id, "success", seconds=SECONDS)
        except pytest.fail.Exception as failure:
            pytest.fail("\n".join([str(failure), *self._errors(job_id)]))
        return Run(self, job_id)

    def _errors(self, job_id: str) -> Iterator[str]:
        """Errors in the logs of the job's workers, which FATE alone writes."""
        for party in self.parties.parties.values():
            for log in sorted((party.home / "logs" / job_id).rglob("ERROR.log")):
                yield f"{log.relative_to(party.home)}:\n{log.read_text(encoding='utf-8')[-3000:]}"

    def compute(self, *asked: tuple[str, Any]) -> list[Any]:
        """What functions of central.py answer."""
        done = subprocess.run(
            [self.python, "-I", CENTRAL], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, timeout=300,
            check=True,
        )  # fmt: skip
        found = json.loads(done.stdout.splitlines()[-1])
        assert isinstance(found, list)
        return found


@dataclass(frozen=True)
class Run:
    """A job that has succeeded."""

    fate: Fate
    job_id: str

    def outputs(self, seat: str, task: str) -> dict[str, Any]:
        """What the task says that it has written at a seat, such as `host 10000`, by kind and key."""
        found = self._newest(seat, task, RESULT)["io_meta"]["outputs"]
        assert isinstance(found, dict)
        return found

    def _newest(self, seat: str, task: str, name: str) -> dict[str, Any]:
        """A file of the last worker of a task."""
        role, party_id = seat.split()
        home = self.fate.parties.parties[party_id].home
        [*_, newest] = sorted((home / "jobs" / self.job_id / role / party_id / task).rglob(name))
        found = json.loads(newest.read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    def model(self, seat: str, task: str, key: str = "output_model") -> dict[str, Any]:
        written = self.outputs(seat, task)["model"][key]
        [one] = written if isinstance(written, list) else [written]
        found = json.loads(Path(one["uri"].removeprefix("file://")).read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    def tables(self, seat: str, *named: str) -> list[Columns]:
        """The columns of the tables that data frames at a seat have become, each named as `task.key`."""
        found = []
        for task, _, key in (one.partition(".") for one in named):
            for made in self._newest(seat, task, TABLES_MADE)[key]:
                with Table(made["uri"]) as table:
                    names = (table.schema.sid, *table.schema.header)
                    columns = zip(*table, strict=True)
                    ids = (table.schema.sid, table.schema.meta["match_id_name"])
                    found.append({
                        name: list(one) if name in ids else [_value(text) for text in one]
                        for name, one in zip(names, columns, strict=True)
                    })  # fmt: skip
        return found

    def frames(self, seat: str, *named: str) -> list[Columns]:
        """The columns of data frames at a seat, each named as `task.key`; a process of FATE reads one folder alone, and
        takes five seconds of a processor to begin."""
        asked = []
        for task, _, key in (one.partition(".") for one in named):
            written = self.outputs(seat, task)["data"][key]
            asked += [{**each, "seat": seat} for each in (written if isinstance(written, list) else [written])]
        [found] = self.fate.compute(("frames", asked))
        return list(found)

    def rows(self, seat: str, named: str, folder: Path) -> dict[str, dict[str, str]]:
        """The table of an output, `task.key` or the only one of `task`, as `flow component output-data` writes it: by
        id, the text by column."""
        role, party_id = seat.split()
        task, _, key = named.partition(".")
        party = self.fate.parties.parties[party_id]
        place = ("-j", self.job_id, "-r", role, "-p", party_id, "-cpn", task)
        party.flow("component", "output-data", *place, "-o", folder)
        [file] = folder.glob(f"job_{self.job_id}_{task}_{role}_{party_id}_output_data/{key or '*'}.csv")
        with file.open(encoding="utf-8", newline="") as lines:
            return {row[ID]: row for row in csv.DictReader(lines)}

    def metrics(self, seat: str, task: str) -> dict[str, Any]:
        """The metrics of a task at a seat: the values by name, of steps a list."""
        role, party_id = seat.split()
        place = {"job_id": self.job_id, "role": role, "party_id": party_id, "component_name": task}
        found = self.fate.parties.parties[party_id].ask("tracking/component/metric/all", place)
        return {name: one["data"] for names in found.values() for name, one in names.items()}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def column_of(frame: Columns, ids: Sequence[str], name: str, id_name: str) -> list[Any]:
    """A column of a data frame, in the order of these ids."""
    by_id = dict(zip(frame[id_name], frame[name], strict=True))
    return [by_id[one] for one in ids]
