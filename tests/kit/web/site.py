"""A server with jobs of each kind, and a browser that looks at its board.

The server is the application itself in a worker of gunicorn with one thread, over a database with jobs of each kind:
nothing has to be waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fate_flow.api.http.gunicorn_worker import CallerLimits
from fate_flow.core.access.client_roles import ClientRole
from fate_flow.core.model.status import JobStatus
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client, add_client
from fate_flow.store.values import Document
from fate_flow.web import log_pages
from fate_flow.web.logs.log_events import LogEvents
from tests.kit.api.client_world import GUEST, HOST, START, TOY_CONF, World, make_world
from tests.kit.api.gunicorn_worker import GunicornWorker
from tests.kit.api.recorded_world import JOB as RECORDED
from tests.kit.api.recorded_world import record_job
from tests.kit.web.browser import Browser
from tests.kit.web.chromium import Chromium, chromium
from tests.kit.web.filled_task import add_filled_task

OWNER = ClientKeys("the-app", "the-secret")
SCRIPT = "<script>document.title = 'taken over'</script>"
"""In the names of jobs, which other parties write: no page runs it."""


@dataclass
class Site:
    """A server with jobs, and a browser that looks at it."""

    world: World
    url: str
    window: Chromium
    jobs: dict[str, str]
    events: LogEvents
    asked: list[tuple[str, str]]         # what the browser has asked for: what it needs it for, and the path

    def sign_in(self, key: Client, path: str = "/board/") -> None:
        self.window.forget_who_signed_in()
        self.window.go(f"{self.url}{path}")
        self.window.type("#app_key", key.app_key)
        self.window.type("#secret", key.secret_key)
        self.window.click("#sign-in button")

    def client(self, name: str, roles: ClientRole) -> Client:
        return add_client(self.world.home, name, roles, 1)


@contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """The server, with one thread, and a browser; both keep everything in this folder."""
    (folder / "home").mkdir()
    world = make_world(folder / "home", client_keys=OWNER)
    events = LogEvents()
    with patch.object(log_pages, "LogEvents", lambda: events):
        app = Browser(world).client.application
    limits, asked = CallerLimits(bodies=1), list[tuple[str, str]]()

    def noting(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        asked.append((environ["HTTP_SEC_FETCH_DEST"], environ["PATH_INFO"]))
        return app(environ, start)

    with closing(GunicornWorker(folder, noting, limits, threads=1)) as served, chromium(folder) as window:
        yield Site(world, served.url, window, filled(world), events, asked)


def filled(world: World) -> dict[str, str]:
    waiting = world.add_job(
        f_name=f"credit {SCRIPT}", f_lacks="room", f_wait_reason="host 10000 has 1 of 8 cores free, 2 asked",
    )  # fmt: skip
    world.add_seats(waiting)
    running = world.add_job(
        status=JobStatus.RUNNING, document=graph(), f_name="a graph", f_claim="c", f_resource_in_use=True,
        f_start_time=START,
    )  # fmt: skip
    world.add_task(running, "load", f_start_time=START)
    failed = world.add_job(
        status=JobStatus.FAILED, f_message=f"toy_0 failed on host 10000: {SCRIPT}", f_caused_by="host 10000",
    )  # fmt: skip
    object.__setattr__(world.services.context, "keeps_record", True)
    record_job(world)
    object.__setattr__(world.services.context, "keeps_record", False)
    world.add_job(RECORDED, f_name="recorded")
    review = world.add_job(party=HOST, initiator=GUEST, f_approval="pending")
    return {
        "waiting": waiting, "running": running, "failed": failed, "review": review, "filled": add_filled_task(world),
    }


def graph() -> Document:
    after = {"load": [], "left": ["load"], "right": ["load"], "total": ["left", "right"]}
    components = {
        name: {
            "module": "Reader" if not before else "Intersection", "output": {"data": ["data"]},
            **({"input": {"data": {"data": [f"{before[0]}.data"]}}} if before else {}),
        }
        for name, before in after.items()
    }  # fmt: skip
    table = {"load": {"table": {"name": "a", "namespace": "b"}}}
    return Document({"components": components}, {**TOY_CONF, "component_parameters": {"common": table}}, {})
