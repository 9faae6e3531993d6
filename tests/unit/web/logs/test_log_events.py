"""Browsers are told that logs have grown: over connections that hold no thread, and without a line of a log."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from fate_flow.api.http.caller_socket import CallerSocket
from fate_flow.core.access.client_roles import AUDIT, READ
from fate_flow.core.model.errors import Busy
from fate_flow.core.model.status import JobStatus
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.web.logs import log_events
from fate_flow.web.logs.log_events import MOST_LOGS, LogEvents
from tests.kit.api.client_world import make_world
from tests.kit.waiting import eventually
from tests.kit.web.browser import Browser
from tests.kit.web.filled_task import add_filled_task, add_worker

SECONDS = 60.0
NEVER = 3600.0


class EventReader:
    """The browser's side of a connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(SECONDS)
        self._file, self._sock = sock.makefile("rb"), sock

    def head(self) -> list[str]:
        found = []
        while line := self._file.readline().strip():
            found.append(line.decode())
        assert self._file.readline() == b"retry: 1000\n"
        assert self._file.readline() == b"\n"
        return found

    def event(self) -> str:
        """The next event; empty at the end."""
        line = self._file.readline()
        assert not line or self._file.readline() == b"\n"
        return line.decode().strip()

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        self._file.close()
        self._sock.close()


class Site:
    def __init__(self, life_seconds: float = NEVER) -> None:
        self.events = LogEvents(look_seconds=0.01, life_seconds=life_seconds)
        self._readers: list[EventReader] = []

    def connect(self, *files: Path | None) -> EventReader:
        browser, server = socket.socketpair()
        self._readers.append(EventReader(browser))
        self.events.take_place()
        self.events.add(server, {"X-Frame-Options": "none"}, files)
        return self._readers[-1]

    def close(self) -> None:
        for one in self._readers:
            one.close()
        eventually(lambda: not self.events.count, "no connection any more")
        eventually(lambda: self.events._looking is None, "no looks at files any more")


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def test_each_log_that_grows_is_told_by_its_number(site: Site, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    for file in files:
        file.write_text("begun\n", encoding="utf-8")
    reader = site.connect(files[0], None, files[1])
    assert "HTTP/1.1 200 OK" in (head := reader.head())
    assert {"Content-Type: text/event-stream", "X-Frame-Options: none", "X-Accel-Buffering: no"} <= set(head)
    assert [reader.event(), reader.event()] == ["data: 0", "data: 2"], "a page may have missed what came before"
    for number, file in ((2, files[1]), (0, files[0]), (2, files[1])):
        with file.open("a", encoding="utf-8") as log:
            log.write("a line\n")
        assert reader.event() == f"data: {number}"


def test_a_log_that_is_not_there_yet_is_told_of_when_it_is(site: Site, tmp_path: Path) -> None:
    reader = site.connect(tmp_path / "stdout")
    reader.head()
    assert reader.event() == "data: 0"
    (tmp_path / "stdout").touch()
    assert reader.event() == "data: 0"


def test_a_connection_ends_after_its_time_and_another_one_goes_on(tmp_path: Path) -> None:
    site = Site(life_seconds=0.0)
    for _ in range(2):
        reader = site.connect(tmp_path / "stdout")
        reader.head()
        assert [reader.event(), reader.event()] == ["data: 0", ""]
    site.close()


def test_a_browser_that_goes_leaves_nothing_whatever_it_has_sent(site: Site, tmp_path: Path) -> None:
    gone = site.connect(tmp_path / "stdout")
    gone.send(b"x" * 100_000)
    assert site.events.count == 1
    gone.close()
    eventually(lambda: not site.events.count, "no connection")


def test_a_browser_that_does_not_read_is_left(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_events, "_MOST_UNREAD", -1)
    site.connect(tmp_path / "stdout").head()
    eventually(lambda: not site.events.count, "no connection")


def test_more_browsers_than_a_process_tells_have_to_ask(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_events, "MOST_CONNECTIONS", 1)
    first = site.connect(tmp_path / "stdout")
    with pytest.raises(Busy, match="has to ask"):
        site.events.take_place()
    first.close()
    eventually(lambda: not site.events.count, "the place of a browser that has gone")
    site.connect(tmp_path / "stdout").head()


# ---------------------------------------------------------------------- the route


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def events_of(*addresses: str) -> str:
    return f"/board/log-events?{urlencode([('log', one) for one in addresses])}"


def test_the_page_of_a_log_that_may_grow_follows_events(browser: Browser) -> None:
    over = add_filled_task(browser.world)
    assert "data-events" not in browser.page(f"/board/jobs/{over}/tasks/toy_0/log").text
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    add_worker(browser.world, job_id, 0, 0)
    assert 'data-events="/board/static/pages.js?v=' in browser.page(f"/board/jobs/{job_id}/tasks/toy_0/log").text


def test_the_page_of_a_log_that_is_not_there_yet_has_the_script_that_follows_it(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    page = browser.page(f"/board/jobs/{job_id}/tasks/toy_0/log")
    assert 'id="log"' not in page.text
    assert "/board/static/pages.js?v=" in page.text


def test_a_browser_is_told_of_the_logs_of_this_party(browser: Browser) -> None:
    job_id = browser.world.add_job(status=JobStatus.RUNNING, f_start_time=1)
    browser.world.add_task(job_id, f_status="running", f_party_status="running", f_start_time=1)
    path = add_worker(browser.world, job_id, 0, 0)
    task = f"/board/jobs/{job_id}/tasks/toy_0/log/piece"
    addresses = [
        f"{task}?party=host-10000&version=0", f"{task}?worker=7", f"{task}?party=guest-9999&version=0&stream=stdout",
        f"{task}?stream=INFO", "/board/jobs/20260101120000999999/tasks/toy_0/log/piece",
    ]  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as listener:  # who comes over a Unix socket is another party
        reader = EventReader(socket.create_connection(listener.getsockname()))
        accepted, _ = listener.accept()
    with CallerSocket(accepted, SECONDS) as connection:
        response = browser.client.get(events_of(*addresses), environ_overrides={"gunicorn.socket": connection})
        assert (response.status_code, response.text) == (200, "")
    assert "Cache-Control: no-store" in reader.head()
    assert [reader.event(), reader.event()] == ["data: 2", "data: 3"]
    with path.open("a", encoding="utf-8") as log:
        log.write("a line\n")
    assert reader.event() == "data: 2"
    reader.close()


@pytest.mark.parametrize("addresses", [
    [], ["/board/jobs"], ["https://elsewhere.example/board/jobs/1/tasks/a/log/piece"],
    ["/board/jobs/x/tasks/toy_0/log/piece"],
    ["/board/jobs/20260101120000999999/tasks/toy_0/log/piece"] * (MOST_LOGS + 1),
])  # fmt: skip
def test_what_is_no_log_is_refused(browser: Browser, addresses: list[str]) -> None:
    browser.page(events_of(*addresses), 400)


def test_logs_that_are_not_here_have_no_events(browser: Browser) -> None:
    browser.page(events_of("/board/jobs/20260101120000999999/tasks/toy_0/log/piece"), 404)


def test_events_are_for_clients_that_may_read_logs_and_need_the_real_server(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    address = events_of(f"/board/jobs/{add_filled_task(world)}/tasks/toy_0/log/piece")
    browser = Browser(world)
    assert browser.get(address).status_code == 303, "to the page for signing in"
    for name, roles, status in (("reader", READ, 403), ("auditor", AUDIT | READ, 409)):
        browser.sign_in(add_client(world.home, name, roles, 1))
        assert browser.get(address).status_code == status, name
    assert "fate_flow serve" in browser.get(address).text
