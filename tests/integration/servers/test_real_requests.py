"""What a server says to requests that reach no handler: each answer is in the document that it serves. And what it says
to monitoring, once its processes have run a job."""

from __future__ import annotations

import os
import socket
import subprocess
from http.client import HTTPResponse
from urllib.parse import urlsplit

import psutil
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from fate_flow.core.access.client_roles import METRICS
from fate_flow.settings.people import add_client, revoke_client
from tests.kit.api.documented import Documented
from tests.kit.servers.party_servers import HOST, Cluster, PartyServer, toy
from tests.kit.signing import signed_lines
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

PATH = "/v1/job/query"
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n".encode()
TOO_LARGE = 64 * 1024 * 1024 + 1

NO_REQUESTS = {
    "no line of HTTP": (b"hello\r\n\r\n", 400),
    "no version": (f"POST {PATH} HTTP/9.9.9\r\n\r\n".encode(), 400),
    "no method": (f"P(ST {PATH} HTTP/1.1\r\n\r\n".encode(), 400),
    "no header": (HEAD + b"no colon\r\n\r\n", 400),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "a long line": (f"POST {PATH}?{'a' * 9000} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), 414),
    "another expectation": (HEAD + b"Expect: 200-ok\r\n\r\n", 417),
    "a long header": (HEAD + b"X-Long: " + b"a" * 9000 + b"\r\n\r\n", 431),
    "many headers": (HEAD + b"".join(b"X-%d: 1\r\n" % number for number in range(200)) + b"\r\n", 431),
    "another encoding": (HEAD + b"Transfer-Encoding: magic\r\n\r\n", 501),
    "too large": (HEAD + f"Content-Length: {TOO_LARGE}\r\n\r\n".encode(), 413),
    "broken chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nmagic\r\n\r\n", 400),
}


@pytest.fixture
def document(on_sqlite: Cluster) -> Documented:
    return Documented(on_sqlite.guest.raw("GET", "openapi.json").json())


def said(server: PartyServer, message: bytes) -> tuple[int, str, bytes]:
    """HTTP status, media type and body of the answer to these bytes."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(message)
        response = HTTPResponse(connection)
        response.begin()
        return response.status, response.headers.get_content_type(), response.read()


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request_gets_an_answer_that_every_operation_has(
    on_sqlite: Cluster, document: Documented, name: str
) -> None:
    message, status = NO_REQUESTS[name]
    signed = f"Host: localhost\r\n{signed_lines(on_sqlite.guest.home, PATH)}"
    described = said(on_sqlite.guest, message.replace(b"Host: localhost\r\n", signed.encode()))
    assert described[0] == status, described
    assert document.misfit("post", PATH, *described) == ""


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "WORD"])
def test_a_method_that_the_path_does_not_have(on_sqlite: Cluster, document: Documented, method: str) -> None:
    response = on_sqlite.guest.raw(method, "job/query")
    described = response.status_code, response.headers["Content-Type"], response.content
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert document.shared_misfit("MethodNotAllowed", *described) == ""


@pytest.mark.parametrize("path", [
    "no/such/thing", "job", "job/query/more", "job/%2e%2e/query", "/job/query", "job//query", "job/query//", "",
])
def test_a_path_that_is_none(on_sqlite: Cluster, document: Documented, path: str) -> None:
    response = on_sqlite.guest.raw("POST", path)
    described = response.status_code, response.headers["Content-Type"], response.content
    assert response.status_code == 200
    assert document.shared_misfit("UnknownPath", *described) == ""


def test_a_slash_at_the_end_changes_nothing(on_sqlite: Cluster, document: Documented) -> None:
    response = on_sqlite.guest.raw("POST", "job/query/")
    assert response.json() == on_sqlite.guest.raw("POST", PATH.removeprefix("/v1/")).json()
    assert document.misfit("post", PATH, response.status_code, "application/json", response.content) == ""


def test_a_head_brings_no_body(on_sqlite: Cluster, document: Documented) -> None:
    response = on_sqlite.guest.raw("HEAD", "schema/job.json")
    described = response.status_code, response.headers["Content-Type"], response.content
    assert (response.status_code, response.content) == (200, b"")
    assert document.misfit("head", "/v1/schema/job.json", *described) == ""


def test_monitoring_learns_what_all_processes_have_done(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    scraper = add_client(guest.home, "prometheus", METRICS, 1)
    before = _scraped(guest, scraper.app_key, scraper.secret_key)
    eventually(lambda: requests.get(f"{guest.url}/readyz", timeout=60).text == "ready\n", "a scheduler")
    with on_sqlite.held(HOST):
        job_id = on_sqlite.submit(toy())
        eventually(lambda: _scraped(guest, scraper.app_key, scraper.secret_key)["workers running"] == 1, "a worker")
        [worker] = guest.rows("SELECT f_run_pid AS pid FROM t_worker WHERE f_job_id = ?", job_id)
        assert "PROMETHEUS_MULTIPROC_DIR" not in psutil.Process(worker["pid"]).environ()
    on_sqlite.wait(job_id, "success")
    once = (
        "job_ends_total done guest success", "task_ends_total done guest success", "worker_ends_total done",
        "admission_wait_time_seconds_count",
    )  # fmt: skip
    more = (
        f"peer_requests_total answered {HOST}", f"exchange_bytes_total sent {HOST}",
        f"exchange_bytes_total received {HOST}", "scheduler_step_duration_seconds_count",
        "database_transaction_duration_seconds_count write", "http_requests_total v1 200",
    )  # fmt: skip

    def wrong() -> list[str]:
        after = _scraped(guest, scraper.app_key, scraper.secret_key)
        grown = {name: after.get(name, 0) - before.get(name, 0) for name in (*once, *more)}
        return [*(name for name in once if grown[name] != 1), *(name for name in more if grown[name] <= 0)]

    eventually(lambda: not wrong(), wrong)       # a process counts what it has done after the commit
    revoke_client(guest.home, "prometheus", None, 2)
    password = (scraper.app_key, scraper.secret_key)
    assert requests.get(f"{guest.url}/metrics", auth=password, timeout=60).status_code == 403


def _scraped(server: PartyServer, user: str, password: str) -> dict[str, float]:
    """The numbers by name and labels; promtool accepts the scrape, where there is one."""
    response = requests.get(f"{server.url}/metrics", auth=(user, password), timeout=60)
    assert response.status_code == 200, response.text
    if promtool := os.environ.get("FATE_FLOW_TEST_PROMTOOL"):
        argv = [promtool, "check", "metrics"]
        checked = subprocess.run(argv, input=response.content, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")
    return {
        " ".join((one.name.removeprefix("fate_flow_"), *(value for _, value in sorted(one.labels.items())))): one.value
        for family in text_string_to_metric_families(response.text) for one in family.samples
    }  # fmt: skip
