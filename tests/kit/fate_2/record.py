"""Record what the genuine server of FATE Flow 2 answers: `python -m tests.kit.fate_2.record http://127.0.0.1:9380`.

The server is `fate_flow==2.2.0` with its default configuration (standalone, party 9999), in an environment with
`pyfate==2.2.0` (docs/reference/dependencies.md), `flask==2.2.5`, `werkzeug==2.3.8` and `peewee==3.17.1`:
`fate_flow init --ip 127.0.0.1 --port 9380 --home FOLDER`, then `python -m fate_flow.fate_flow_server`. The job reads a
table that is not there, so it fails after some seconds; the rows are those of any other job. What is recorded of other
requests stays as it is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import requests

from tests.kit.fate_2.answers import RECORDED, REFUSED, about, recorded, shape_of

_GUEST, _HOST = {"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}
_INPUT = {"task_output_artifact": {"producer_task": "reader_0", "output_artifact_key": "output_data"}}
DAG = {
    "schema_version": "2.2.0",
    "dag": {
        "parties": [_GUEST, _HOST],
        "stage": "train",
        "tasks": {
            "reader_0": {
                "component_ref": "reader", "parameters": {"namespace": "none", "name": "none"}, "stage": "default",
            },
            "psi_0": {
                "component_ref": "psi", "dependent_tasks": ["reader_0"], "stage": "default",
                "inputs": {"data": {"input_data": _INPUT}},
            },
        },
    },
}  # fmt: skip
_OVER = ("success", "failed", "canceled")


def record(url: str) -> dict[str, Any]:
    """Return the answers of the server at this URL, with the shapes of those about a job."""
    def ask(method: str, path: str, sent: Mapping[str, Any]) -> Any:
        where = "params" if method == "GET" else "json"
        return requests.request(method, f"{url}/v2/{path}", timeout=60, **{where: sent}).json()

    refused = {name: ask(*request) for name, request in REFUSED.items()}
    submitted = ask("POST", "job/submit", {"dag_schema": DAG})
    job_id, deadline = submitted["job_id"], time.monotonic() + 300
    while ask("GET", "job/query", {"job_id": job_id})["data"][0]["status"] not in _OVER:
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {job_id} has not ended")
        time.sleep(1)
    shapes = {name: shape_of(ask(*request)) for name, request in about(job_id).items()}
    return {"refused": refused, "shapes": {"submit": shape_of(submitted), **shapes}}


if __name__ == "__main__":
    found = {**recorded(), **record(sys.argv[1])}
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
