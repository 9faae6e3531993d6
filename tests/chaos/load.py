"""Users who keep submitting jobs, ask again when they got no answer, and stop some."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from tests.chaos.parties import DATABASE_ERRORS, Party, wait_until

USERS = 6
MOST_OPEN = 5                    # jobs of one initiator that are not over: the queue has to be empty soon after the end
ASK_AGAIN = 8
ASK_AGAIN_SECONDS = 0.5
SETUP_SECONDS = 180.0
TABLE = "people"
ROWS = 200

NO_ANSWER = (requests.RequestException, ValueError)


def has_tables(parties: Mapping[str, Party]) -> None:
    """Every party has the table that the larger jobs read. Raises AssertionError when it does not come about."""
    text = "\n".join(["id,x", *(f"p{number:05d},{number}" for number in range(ROWS))]) + "\n"
    jobs = {party_id: party.upload(TABLE, text) for party_id, party in parties.items()}
    for party_id, job_id in jobs.items():
        statement = "SELECT 1 FROM t_job WHERE f_job_id = ? AND f_status = 'success'"
        assert wait_until(lambda: bool(parties[party_id].rows(statement, job_id)), SETUP_SECONDS), job_id  # noqa: B023


def pair_job(guest: str, host: str, cores: int, data_num: int) -> dict[str, Any]:
    """One task at two parties."""
    components = {"add_0": {"module": "SecureAddExample"}}
    return _document(components, {"guest": [guest], "host": [host]}, {"add_0": {"data_num": data_num}}, cores)


def dag_job(guest: str, hosts: list[str], cores: int) -> dict[str, Any]:
    """Reader, then two tasks side by side, at two parties or more."""
    reader = {"module": "Reader", "output": {"data": ["raw"]}}
    source = {"data": {"data": ["reader_0.raw"]}}
    components: dict[str, Any] = {
        "reader_0": reader,
        "intersection_0": {"module": "Intersection", "input": source, "output": {"data": ["common"]}},
        "sum_0": {"module": "SecureSum", "input": source, "output": {"data": ["total"]}},
    }
    common = {"reader_0": {"table": {"namespace": "chaos", "name": TABLE}}, "sum_0": {"column": "x"}}
    return _document(components, {"guest": [guest], "host": hosts}, common, cores, task_parallelism=2)


def _document(
    components: dict[str, Any], roles: dict[str, list[str]], common: dict[str, Any], cores: int, **parameters: Any
) -> dict[str, Any]:
    return {
        "job_dsl": {"components": components},
        "job_runtime_conf": {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": int(roles["guest"][0])},
            "role": {role: [int(one) for one in ids] for role, ids in roles.items()},
            "job_parameters": {"common": {"task_cores": cores, "task_memory": 16, **parameters}},
            "component_parameters": {"common": common},
        },
    }


class Load:
    """Several users at once; what was accepted is kept, so that it can be asked after."""

    def __init__(self, parties: Mapping[str, Party], seed: int, pause_seconds: float) -> None:
        self._parties = parties
        self._rng = random.Random(f"{seed} load")
        self._pause = pause_seconds
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.accepted: dict[str, str] = {}       # initiator by job id
        self.counts: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(USERS, "user")
        self._thread = threading.Thread(target=self._keep_submitting, name="load")
        self._thread.start()

    def end(self) -> None:
        """Nothing new is submitted; returns when every submit has been answered or given up."""
        self._is_over.set()
        self._thread.join()
        self._pool.shutdown()

    def _keep_submitting(self) -> None:
        number = 0
        while not self._is_over.wait(self._rng.uniform(0.5, 1.5) * self._pause):
            guest, *others = self._rng.sample(sorted(self._parties), len(self._parties))
            document = self._draw(guest, others)
            stop_after = self._rng.uniform(0.0, 2.0) if self._rng.random() < 0.2 else None
            stopper = self._rng.choice([guest, others[0]])
            if self._has_capacity(guest):
                number += 1
                self._pool.submit(self._one, guest, document, f"chaos-{number}", stop_after, stopper)

    def _draw(self, guest: str, others: list[str]) -> dict[str, Any]:
        cores = self._rng.choice([1, 1, 2, 4])
        if self._rng.random() < 0.3:
            return dag_job(guest, others[: self._rng.choice([1, 1, 2])], min(cores, 2))
        # The large ones take a while, so that something happens to them.
        return pair_job(guest, others[0], cores, self._rng.choice([10, 1_000, 20_000]))

    def _has_capacity(self, party_id: str) -> bool:
        statement = (
            "SELECT count(*) AS n FROM t_job WHERE f_is_initiator = 1"
            " AND f_status IN ('ready', 'waiting', 'running', 'stopping')"
        )
        try:
            return int(self._parties[party_id].rows(statement)[0]["n"]) < MOST_OPEN
        except DATABASE_ERRORS:
            return False

    def _one(
        self, guest: str, document: dict[str, Any], request_id: str, stop_after: float | None, stopper: str
    ) -> None:
        self._count("submitted")
        job_id = self._submit(guest, document, request_id)
        if not job_id:
            return
        with self._lock:
            self.accepted[job_id] = guest
        if stop_after is not None:
            self._is_over.wait(stop_after)
            self._stop(stopper, job_id)

    def _submit(self, guest: str, document: dict[str, Any], request_id: str) -> str:
        """The id of the job, empty when it was refused or nobody answered."""
        for _ in range(ASK_AGAIN):
            try:
                answer = self._parties[guest].post("job/submit", document, {"Idempotency-Key": request_id})
            except NO_ANSWER:
                time.sleep(ASK_AGAIN_SECONDS)
                continue
            if answer.get("retcode") == 0:
                self._count("accepted")
                return str(answer["jobId"])
            self._count("refused")
            return ""
        self._count("not answered")
        return ""

    def _stop(self, party_id: str, job_id: str) -> None:
        try:
            self._parties[party_id].post("job/stop", {"job_id": job_id})
        except NO_ANSWER:
            self._count("stops not answered")
        else:
            self._count("stops")

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1
