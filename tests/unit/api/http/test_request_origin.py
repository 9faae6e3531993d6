"""Web pages of other sites ask nothing here, through whatever browser, whatever the keys and the route."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import World, make_world

KEYS = ClientKeys("our-clients", "secret-of-9999")


def ask(world: World, path: str = "/v1/version/get", **headers: str) -> TestResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return world.client.post(path, data=b"{}", headers={"Content-Type": "text/plain", **named})


FOREIGN = [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}, {"Origin": ""},
    {"Origin": "https://localhost.evil.example"}, {"Origin": "http://[evil"}, {"Origin": "file://localhost"},
    {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": ""},
    {"Host": "evil.example"}, {"Host": "evil.example:9380"}, {"Host": "127.0.0.1.evil.example"}, {"Host": ""},
    {"Host": "localhost, evil.example"}, {"Host": "evil.example@127.0.0.1"}, {"Host": "0x7f.1"}, {"Host": "[::1"},
    {"Host": "rebound.example", "Origin": "http://rebound.example", "Sec_Fetch_Site": "same-origin"},
]  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_what_comes_from_elsewhere_is_refused(world: World, headers: dict[str, str]) -> None:
    response = ask(world, **headers)
    assert (response.status_code, response.json["retcode"]) == (403, 403)
    name = next(iter(headers)).replace("_", "-")
    assert response.json["retmsg"].startswith(f"{name}: ")


@pytest.mark.parametrize("headers", [
    {}, {"Host": "127.0.0.1:9380"}, {"Host": "10.0.0.1"}, {"Host": "[::1]:9380"}, {"Host": "localhost:9380"},
    {"Host": "LOCALHOST."}, {"Host": socket.gethostname()}, {"Sec_Fetch_Site": "none"},
    {"Host": "127.0.0.1:9380", "Origin": "http://127.0.0.1:9380", "Sec_Fetch_Site": "same-origin"},
], ids=str)  # fmt: skip
def test_what_a_program_or_an_own_page_sends_is_answered(world: World, headers: dict[str, str]) -> None:
    assert ask(world, **headers).json["retcode"] == 0


def test_names_of_the_configuration_are_own_ones(tmp_path: Path) -> None:
    world = make_world(tmp_path, allowed_hosts=frozenset({"fate.example.org"}))
    assert ask(world, Host="fate.example.org:443").json["retcode"] == 0
    behind_proxy = {"Host": "127.0.0.1:9380", "Origin": "https://FATE.example.org"}
    assert ask(world, **behind_proxy).json["retcode"] == 0
    assert ask(world, Host="other.example.org").status_code == 403
    assert ask(world, Host="x.fate.example.org").status_code == 403


@pytest.mark.parametrize("keys", [None, KEYS])
@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
])  # fmt: skip
def test_every_route_refuses_them_before_all_else(
    tmp_path: Path, keys: ClientKeys | None, headers: dict[str, str]
) -> None:
    app = make_world(tmp_path, client_keys=keys).client.application
    client = FlaskClient(app, app.response_class)           # one that does not look into the document of the routes
    paths = {rule.rule.replace("<", "").replace(">", "") for rule in app.url_map.iter_rules()}
    assert len(paths) > 100
    for path in sorted({*paths, "/v1/nowhere"}):
        for method in ("GET", "POST", "OPTIONS"):
            assert client.open(path, method=method, headers=headers).status_code == 403, (method, path)
