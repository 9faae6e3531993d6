"""What real servers answer about real jobs is in the OpenAPI document that they serve, on each database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.api.documented import Documented
from tests.kit.servers.party_servers import GUEST, HOST, Cluster, PartyServer, csv_text, toy

pytestmark = pytest.mark.timeout(900)

UNLIKE_OTHERS = {
    "/v1/job/submit", "/v1/job/rerun", "/v1/job/clean/queue", "/v1/data/upload", "/v1/data/download",
    "/v1/table/delete", "/v1/queue/hold", "/v1/queue/release", "/v1/server/reload", "/v1/job/clean",
    "/v1/job/parameter/update", "/v1/table/disable/delete", "/v1/tracking/component/metric/delete",
}  # fmt: skip
"""They would begin jobs, or change what the other tests need."""


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, set[str]]]:
    """Method, path, and the keys of the body."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if path not in UNLIKE_OTHERS and path.startswith("/v1/"):
                yield method, path, set(content.get("schema", {}).get("properties", ()))


@pytest.mark.heavy
def test_what_is_said_of_a_job_is_in_the_document(cluster: Cluster) -> None:
    upload = cluster.guest.upload("documented", csv_text(["id", "x"], {"1": [2], "2": [3]}))
    cluster.guest.wait(upload["jobId"], "success")
    succeeded, stopped = cluster.run(toy()), cluster.submit(toy(data_num=100_000))
    cluster.guest.post("job/stop", {"job_id": stopped})
    cluster.wait(stopped, "canceled", "success")
    described = [
        one
        for server, role in ((cluster.guest, "guest"), (cluster.host, "host"))
        for one in asked(server, *known(role, succeeded, stopped, upload["jobId"]))
    ]
    assert [problem for _, problem, _ in described if problem] == []
    assert {path for path, _, has_worked in described if has_worked} >= LOOKED_AT


LOOKED_AT = {
    f"/v1/{path}" for path in (
        "job/query", "job/list/job", "job/list/task", "job/task/query", "job/explain", "job/history", "job/config",
        "job/report", "job/log/download", "queue/list", "resource/query", "table/table_info", "data/upload/history",
        "tracking/component/parameters", "tracking/component/summary/download", "log/cat", "party/list",
        "component/get", "provider/{name}/get",
    )
}  # fmt: skip


def known(role: str, *job_ids: str) -> Iterator[dict[str, Any]]:
    """What may be asked for at a party of this role."""
    seat = {"role": role, "party_id": GUEST if role == "guest" else HOST}
    table = {"namespace": "it", "table_name": "documented"}
    for job_id in job_ids:
        yield {"job_id": job_id, **seat, "component_name": "toy_0", "log_type": "partyInfo", **table}
        yield {"job_id": job_id, "engine": "PATH", "log_type": "jobSchedule"}


def asked(server: PartyServer, *known_names: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Each route with those of these names that it takes: what is wrong with its answer, and whether it worked.

    No route is asked the same twice."""
    document = server.raw("GET", "openapi.json").json()
    documented = Documented(document)
    bodies = {
        (method, path, json.dumps(body)): body
        for names in known_names for method, path, keys in operations(document)
        for body in [{key: value for key, value in names.items() if key in keys}]
    }
    for (method, path, _), body in bodies.items():
        answer = server.raw(method, path.removeprefix("/v1/").replace("{name}", "fate_flow"), json=body)
        mimetype = answer.headers["Content-Type"].partition(";")[0]
        problem = documented.misfit(method, path, answer.status_code, mimetype, answer.content)
        is_file = mimetype != "application/json" or method == "head"
        has_worked = answer.status_code == 200 and (is_file or answer.json().get("retcode", 0) == 0)
        yield path, f"{method} {path} {body}: {problem}" if problem else "", has_worked
