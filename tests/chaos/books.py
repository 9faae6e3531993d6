"""What has to be true of a party at every commit, and of all parties once nothing is left to do.

Read from the databases by SQL and from the worker folders, never asked of a server.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fate_flow.engines.local.engine import living_workers
from tests.chaos.parties import Party, Row

OVER = ("success", "failed", "canceled", "timeout")
SEATS_OVER = ("left", "unconfirmed", "refused")
KEPT_FOLDERS = ("spool/sessions", "spool/tokens", "spool/trash", "uploads")
EXPLAINED = ("the process ended with signal 9", "the process and its runner are gone")     # of workers that were killed
BY_A_LEASE = (": party_unreachable: ", ": initiator_lost: ")     # that ran out in a partition
MOST_SHOWN = 20


def imbalance(party: Party) -> list[str]:
    """In use + remaining = total, in one statement and so at one moment."""
    found = party.rows(
        "SELECT f_cores, f_remaining_cores, f_memory, f_remaining_memory,"
        " (SELECT COALESCE(SUM(f_cores), 0) FROM t_job WHERE f_resource_in_use = 1)"
        " + (SELECT COALESCE(SUM(f_cores), 0) FROM t_worker WHERE f_status <> 'exited') AS used_cores,"
        " (SELECT COALESCE(SUM(f_memory), 0) FROM t_job WHERE f_resource_in_use = 1)"
        " + (SELECT COALESCE(SUM(f_memory), 0) FROM t_worker WHERE f_status <> 'exited') AS used_memory"
        " FROM t_engine_registry"
    )
    return [
        f"party {party.party_id}: {kind}: {row[f'used_{kind}']} in use and {row[f'f_remaining_{kind}']} remaining"
        f" are not {row[f'f_{kind}']}"
        for row in found for kind in ("cores", "memory")
        if int(row[f"used_{kind}"]) + row[f"f_remaining_{kind}"] != row[f"f_{kind}"]
    ]


def unsettled(parties: Mapping[str, Party], accepted: Mapping[str, str]) -> list[str]:
    """Everything that is not as it has to be when nothing is left to do; `accepted` is initiator by job id."""
    found = [one for party in parties.values() for one in (*_open_rows(party), *_leftovers(party))]
    return found + _disagreements(parties, accepted)


def _open_rows(party: Party) -> list[str]:
    found = imbalance(party)
    with party.reading() as rows:
        found += _wrong_in(rows)
    return [one if one.startswith("party") else f"party {party.party_id}: {one}" for one in found]


def _wrong_in(rows: Callable[..., list[Row]]) -> Iterator[str]:
    for row in rows("SELECT * FROM t_engine_registry"):
        if (row["f_remaining_cores"], row["f_remaining_memory"]) != (row["f_cores"], row["f_memory"]):
            yield f"{row['f_remaining_cores']} of {row['f_cores']} cores are free"
    jobs = "SELECT f_job_id, f_role, f_status, f_resource_in_use, f_ready_signal, f_wait_reason FROM t_job"
    for row in rows(jobs):
        if row["f_status"] not in OVER or row["f_resource_in_use"] or row["f_ready_signal"]:
            yield f"job {_text(row)}"
    for row in rows("SELECT f_task_id, f_task_version, f_party_status FROM t_task WHERE f_run_on_this_party = 1"):
        if row["f_party_status"] not in (*OVER, "pass"):
            yield f"task {_text(row)}"
    for statement, name in (
        ("SELECT f_worker_id, f_status FROM t_worker WHERE f_status <> 'exited'", "worker"),
        ("SELECT f_kind, f_job_id, f_party_id FROM t_outbox", "command not answered"),
        ("SELECT f_request_id, f_job_id FROM t_submission WHERE f_retcode IS NULL", "submission half done"),
        (f"SELECT f_job_id, f_party_id, f_status FROM t_seat WHERE f_status NOT IN {SEATS_OVER}", "seat"),
        ("SELECT f_task_id, f_task_version, f_role, f_party_id, count(*) AS n FROM t_worker"
         " GROUP BY f_task_id, f_task_version, f_role, f_party_id HAVING count(*) > 1", "two workers of one attempt"),
    ):
        yield from (f"{name} {_text(row)}" for row in rows(statement))


def _leftovers(party: Party) -> list[str]:
    """Processes and files that nothing needs any more."""
    found = [f"process of {folder}" for folder in living_workers(party.home / "jobs")]
    for name in KEPT_FOLDERS:
        found += [os.path.join(path, file) for path, _, files in os.walk(party.home / name) for file in files]
    return [f"party {party.party_id}: {one}" for one in found]


def _disagreements(parties: Mapping[str, Party], accepted: Mapping[str, str]) -> list[str]:
    """A job ends alike everywhere, but for parties that its initiator names as unconfirmed."""
    rows = {party_id: _jobs(party) for party_id, party in parties.items()}
    known = {(party_id, job_id) for party_id, jobs in rows.items() for job_id, _, _ in jobs}
    found = [
        f"job {job_id}: party {initiator} accepted it and does not know it"
        for job_id, initiator in accepted.items() if (initiator, job_id) not in known
    ]
    for jobs in rows.values():
        for row in jobs.values():
            initiator = row["f_initiator_party_id"]
            key = (row["f_job_id"], row["f_initiator_role"], initiator)
            found += _difference(row, rows[initiator].get(key) if initiator in rows else row)
    return found


def _jobs(party: Party) -> dict[tuple[str, str, str], Row]:
    """By job and seat: a party may have several in one job."""
    found = party.rows(
        "SELECT f_job_id, f_role, f_party_id, f_status, f_reason, f_message, f_initiator_role, f_initiator_party_id,"
        " f_is_initiator, f_unconfirmed_parties FROM t_job"
    )
    return {(row["f_job_id"], row["f_role"], row["f_party_id"]): row for row in found}


def _difference(row: Row, own: Row | None) -> list[str]:
    seat = f"{row['f_role']} {row['f_party_id']}"
    where = f"job {row['f_job_id']}: {row['f_status']} ({row['f_reason']}) at {seat}"
    if own is None:
        return [f"{where}, unknown to its initiator {row['f_initiator_role']} {row['f_initiator_party_id']}"]
    unconfirmed = json.loads(own["f_unconfirmed_parties"] or "[]")
    if row["f_status"] == own["f_status"] or seat in unconfirmed:
        return []
    return [f"{where}, {own['f_status']} ({own['f_reason']}) at its initiator, which misses {unconfirmed}"]


def ends(parties: Mapping[str, Party]) -> Counter[str]:
    """How the jobs ended, by status and reason, as their initiators say."""
    return Counter(
        row["f_status"] if row["f_status"] == "success" else f"{row['f_status']}: {row['f_reason']}"
        for party in parties.values() for row in _jobs(party).values() if row["f_is_initiator"]
    )


def failures(parties: Mapping[str, Party]) -> list[str]:
    """What the initiators say of the jobs that failed."""
    return [
        f"{row['f_job_id']}: {row['f_reason']}: {row['f_message']}"
        for party in parties.values() for row in _jobs(party).values()
        if row["f_is_initiator"] and row["f_status"] == "failed"
    ]


def unexplained(described: list[str], may_outlive_leases: bool = False) -> list[str]:
    """The failures that none of the faults is the reason of, where one of these may have lasted longer than a lease."""
    explained = EXPLAINED + BY_A_LEASE if may_outlive_leases else EXPLAINED
    return [f"failed without a true reason: {one}" for one in described if not any(text in one for text in explained)]


def unconfirmed(parties: Mapping[str, Party]) -> int:
    """Jobs whose initiator could not reach somebody to the end."""
    return sum(
        bool(json.loads(row["f_unconfirmed_parties"] or "[]"))
        for party in parties.values() for row in _jobs(party).values() if row["f_is_initiator"]
    )


def left_alone(parties: Mapping[str, Party]) -> int:
    """Seats that their party has ended because their initiator was silent."""
    return sum(row["f_reason"] == "initiator_lost" for party in parties.values() for row in _jobs(party).values())


def tracebacks(party: Party) -> Counter[str]:
    """The last lines of the tracebacks in the server's own logs: what to look at after a run."""
    found: Counter[str] = Counter()
    for name in ("ERROR.log", "console.log"):
        path = party.home / "logs" / "fate_flow" / name
        if path.exists():
            found.update(_last_lines(path))
    return found


def _last_lines(path: Path) -> list[str]:
    found, is_inside = [], False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Traceback"):
            is_inside = True
        elif is_inside and line and not line[0].isspace():
            found.append(line[:160])
            is_inside = False
    return found


def shown(violations: list[str]) -> str:
    more = len(violations) - MOST_SHOWN
    return "\n".join([*violations[:MOST_SHOWN], *([f"... and {more} more"] if more > 0 else [])])


def _text(row: Row) -> str:
    return " ".join(str(value) for value in row.values() if value not in (None, ""))
