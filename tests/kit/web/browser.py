"""A browser without a screen: it signs in as the script of the page does, keeps cookies, and sends forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.api.app import create_public_app
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client
from fate_flow.web.routes import web_api
from fate_flow.web.sessions import proof_of
from tests.kit.api.client_world import OWN_KEY, World
from tests.kit.api.routes_compiled_once import with_routes_compiled_once

SECRET = b"the secret of a home, 32 bytes.."


@dataclass(frozen=True)
class Tag:
    name: str
    attributes: Mapping[str, str | None]


@dataclass
class Page(HTMLParser):
    """A page, taken apart."""

    text: str
    tags: list[Tag] = field(default_factory=list)
    inside_scripts: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._in_script = False
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(Tag(tag, dict(attrs)))
        self._in_script = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag not in ("script", "style")

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.inside_scripts += data

    @property
    def readable(self) -> str:
        """What is to be read, in one line."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.text)).split())

    def forms(self) -> list[str]:
        return [str(one.attributes.get("action")) for one in self.tags if one.name == "form"]


class Browser:
    def __init__(self, world: World, clock: Callable[[], int] = now_on_the_wall) -> None:
        self.world = world
        services = world.services
        pages = (web_api(services, SECRET, clock),)
        app = with_routes_compiled_once(lambda: create_public_app(services, message_key=lambda: OWN_KEY, pages=pages))
        self.client: FlaskClient = app.test_client()

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, headers=headers)

    def page(self, path: str, status: int = 200) -> Page:
        response = self.get(path)
        assert response.status_code == status, response.text
        return Page(response.text)

    def challenge(self, target: str = "") -> str:
        page = self.get(f"/board/sign-in?next={target}").text
        found = re.search(r'name="challenge" value="([^"]+)"', page)
        assert found is not None, page
        return found[1]

    def sign_in(
        self, key: Client | ClientKeys, target: str = "", challenge: str = "", secret: str = ""
    ) -> TestResponse:
        asked = challenge or self.challenge(target)
        proof = proof_of(secret or key.secret_key, asked)
        form = {"challenge": asked, "app_key": key.app_key, "proof": proof, "next": target}
        return self.client.post("/board/sign-in", data=form)

    def send(self, path: str, **form: str) -> TestResponse:
        """Send a form with the token of the session."""
        found = re.search(r'name="form_token" value="([^"]+)"', self.get("/board/").text)
        token = found[1] if found else ""
        return self.client.post(path, data={"form_token": token, **form})


def count_on(browser: Browser, page: Page) -> list[int]:
    """What each request counts that the script of the page makes, sorted."""
    [address] = [str(one.attributes["data-address"]) for one in page.tags if one.attributes.get("id") == "count"]
    pieces, following = [], ""
    while following is not None:
        piece = browser.get(f"{address}&from={quote(following)}").get_json()
        pieces.append(piece["count"])
        assert piece["count"] <= piece["looked_at"] <= 25
        following = piece["next"]
    return sorted(pieces)


@contextmanager
def counted_queries(world: World) -> Iterator[list[str]]:
    """The queries that the database is asked meanwhile."""
    found: list[str] = []
    connection = world.store.database.connection()
    connection.set_trace_callback(lambda text: found.append(text) if text.lstrip().startswith("SELECT") else None)
    try:
        yield found
    finally:
        connection.set_trace_callback(None)


def of_view(queries: Sequence[str]) -> list[str]:
    """Which parties have key lists is read once a second for all requests, and not by a view."""
    return [one for one in queries if "t_party_key" not in one or "UNION" in one]
