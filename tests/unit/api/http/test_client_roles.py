"""What the clients of a party may do: each route names the client roles that suffice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, Response
from werkzeug.test import TestResponse

from fate_flow.api.http.client_auth import is_for_clients
from fate_flow.api.http.declared import Declaration, declaration_of
from fate_flow.api.v1.envelope import ok
from fate_flow.api.v1.openapi import path_of
from fate_flow.core.access.client_roles import (
    ALL_ROLES,
    APPROVE,
    AUDIT,
    GRANT,
    OPEN,
    OPERATE,
    READ,
    SUBMIT,
    ClientRole,
    names_of,
    suffices,
)
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client, people_file, renew_client, revoke_client
from tests.kit.api.client_world import World, make_world
from tests.kit.api.signed_requests import asked

KEYS = ClientKeys("our-clients", "secret-of-9999")
NOW = 1_700_000_000_000
DOCS = Path(__file__).parents[4] / "docs" / "reference" / "api.md"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = make_world(tmp_path, client_keys=KEYS)
    yield found
    found.store.close()


def retcode(response: TestResponse) -> Any:
    """Of v1; the codes of FATE Flow 2 for the same are translated."""
    body = response.json
    return {5005: 108, 5004: 109}.get(body["code"], body["code"]) if "code" in body else body["retcode"]


def _is_of_envelope(response: TestResponse) -> bool:
    return bool(response.is_json and response.json.keys() & {"retcode", "code"})


def declarations(app: Flask) -> Iterator[tuple[str, str, Declaration]]:
    """Every route for clients: its path, a method, its declaration."""
    for rule in app.url_map.iter_rules():
        if is_for_clients(rule.rule):
            declaration = declaration_of(app.view_functions[rule.endpoint])
            assert declaration is not None, rule
            yield path_of(rule), "GET" if "GET" in (rule.methods or ()) else "POST", declaration


# ---------------------------------------------------------------------- the table


def test_pages_of_everybody_are_those_that_say_nothing_of_a_party(world: World) -> None:
    assert {path for path, _, one in declarations(world.app) if one.roles == OPEN} == {
        "/index.html", "/v1/openapi.json", "/healthz", "/readyz", "/schedules",
    }  # fmt: skip


@pytest.mark.parametrize(("path", "roles"), [
    ("/v1/job/submit", SUBMIT), ("/v1/job/stop", SUBMIT | OPERATE), ("/v1/job/approve", APPROVE),
    ("/v1/job/reject", APPROVE), ("/v1/queue/hold", OPERATE), ("/v1/permission/grant", GRANT),
    ("/v1/key/public/save", GRANT), ("/v1/key/public/delete", GRANT), ("/v1/party/list", READ),
    ("/v1/job/log/download", SUBMIT | OPERATE | AUDIT), ("/v1/tracking/component/output/data/download", SUBMIT),
])  # fmt: skip
def test_what_matters_most(world: World, path: str, roles: ClientRole) -> None:
    assert {one.roles for found, _, one in declarations(world.app) if found == path} == {roles}


def test_only_reading_changes_nothing(world: World) -> None:
    """A route that a reader may use is one that shows something, by its own words, or changes what is the reader's own;
    or it is not offered at all."""
    shows = re.compile(r"(Show|Explain|List|The |Where|Download example|Derive|Answer no data)")
    readers = {path: one.what for path, _, one in declarations(world.app) if one.roles == READ and not one.never}
    assert len(readers) > 30
    own = {"/v1/notification/choose"}         # of what one is notified oneself
    assert {path for path, what in readers.items() if not shows.match(what)} == own


def test_the_documents_have_the_table_of_the_routes(world: World) -> None:
    by_roles: dict[ClientRole, set[str]] = {}
    for path, _, one in declarations(world.app):
        if not one.never and not path.startswith("/v2/"):
            by_roles.setdefault(one.roles, set()).add(path)
    rows = [
        f"| {_named(roles) or 'everybody, without a key'} | {', '.join(f'`{path}`' for path in sorted(paths))} |"
        for roles, paths in sorted(by_roles.items(), key=lambda item: item[0].value)
    ]
    assert documented("client role | routes") == rows, "\n".join(["write into docs/reference/api.md:", *rows])


def test_the_documents_have_the_table_of_the_routes_of_fate_2(world: World) -> None:
    found = {path: one.roles for path, _, one in declarations(world.app) if path.startswith("/v2/") and not one.never}
    rows = [f"| `{path}` | {_named(roles)} |" for path, roles in sorted(found.items())]
    assert documented("route | client role") == rows, "\n".join(["write into docs/reference/api.md:", *rows])


def documented(head: str) -> list[str]:
    """The rows of the table with this head."""
    text = DOCS.read_text(encoding="utf-8").partition(f"| {head} |\n|---|---|\n")[2]
    return text.partition("\n\n")[0].splitlines()


def _named(roles: ClientRole) -> str:
    return " or ".join(f"`{name}`" for name in names_of(roles))


# ---------------------------------------------------------------------- requests


def test_each_route_refuses_who_has_none_of_its_roles_and_nobody_else(world: World, tmp_path: Path) -> None:
    routes = [one for one in declarations(world.app) if "{" not in one[0] and one[2].roles != OPEN]
    assert len(routes) > 80
    for role in ALL_ROLES:
        client = add_client(tmp_path, f"has-{role.name}".lower(), role, NOW)
        for path, method, declaration in routes:
            if suffices(role, declaration.roles):
                continue
            response = asked(world, client, path, method=method)
            assert (response.status_code, retcode(response)) in ((200, 108), (403, 403)), (role, path)
            assert client.name in (response.json.get("retmsg") or response.json["message"])
    reader = add_client(tmp_path, "a-reader", READ, NOW)
    for path, method, declaration in routes:
        if declaration.roles == READ:
            response = asked(world, reader, path, method=method)
            assert response.status_code != 403, path
            assert not _is_of_envelope(response) or retcode(response) not in (108, 109), path


def test_a_refusal_names_who_what_and_how(world: World, tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", SUBMIT | AUDIT, NOW)
    said = asked(world, anna, "/v1/job/approve").json
    assert said == {"retcode": 108, "retmsg": (
        "client anna has the client roles submit, audit, and /v1/job/approve needs approve; whoever runs this server "
        "can give it: fate_flow client renew anna --role ..."
    )}  # fmt: skip
    assert "needs submit or operate; whoever" in asked(
        world, add_client(tmp_path, "reader", READ, NOW), "/v1/job/stop"
    ).json["retmsg"]


def test_a_route_that_answers_with_a_file_refuses_by_its_status(world: World, tmp_path: Path) -> None:
    response = asked(world, add_client(tmp_path, "reader", READ, NOW), "/v1/job/log/download", {"job_id": "1"})
    assert (response.status_code, retcode(response)) == (403, 403)


def test_a_request_of_a_client_is_allowed_until_its_key_is_revoked(world: World, tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", SUBMIT, NOW)
    assert retcode(asked(world, anna, "/v1/version/get")) == 0
    renewed = renew_client(tmp_path, "anna", None, NOW)
    old = asked(world, anna, "/v1/version/get").json
    assert (old["retcode"], "APP_KEY: this key was revoked" in old["retmsg"]) == (109, True)
    assert retcode(asked(world, renewed, "/v1/version/get")) == 0
    revoke_client(tmp_path, "anna", KEYS, NOW)
    assert retcode(asked(world, renewed, "/v1/version/get")) == 109
    assert retcode(asked(world, KEYS, "/v1/version/get")) == 0, "the others go on"


def test_the_single_key_of_fate_may_do_everything_until_it_is_revoked(world: World, tmp_path: Path) -> None:
    for path, method, declaration in declarations(world.app):
        if "{" not in path and declaration.roles not in (OPEN, READ):
            response = asked(world, KEYS, path, method=method)
            assert response.status_code != 403, path
            assert not response.is_json or retcode(response) not in (108, 109), path
    revoke_client(tmp_path, "owner", KEYS, NOW)
    assert retcode(asked(world, KEYS, "/v1/version/get")) == 109


def test_nobody_signs_with_the_secret_of_somebody_else(world: World, tmp_path: Path) -> None:
    anna, bob = (add_client(tmp_path, name, SUBMIT, NOW) for name in ("anna", "bob"))
    mixed = ClientKeys(anna.app_key, bob.secret_key)
    assert retcode(asked(world, mixed, "/v1/version/get")) == 109
    revoke_client(tmp_path, "anna", KEYS, NOW)
    assert retcode(asked(world, ClientKeys(anna.app_key, ""), "/v1/version/get")) == 109, "an empty secret is none"


def test_a_file_that_cannot_be_used_lets_nobody_in(world: World, tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", SUBMIT, NOW)
    people_file(tmp_path).write_text("keys: [{name: anna")
    for key in (anna, KEYS):
        response = asked(world, key, "/v1/version/get")
        assert (response.status_code, response.json) == (500, {
            "retcode": 500, "retmsg": "this server cannot read the keys of its clients; its log says why",
        })  # fmt: skip


def test_each_request_is_logged_with_its_client(world: World, tmp_path: Path) -> None:
    anna = add_client(tmp_path, "anna", SUBMIT, NOW)
    asked(world, anna, "/v1/version/get")
    asked(world, anna, "/v1/job/approve")
    asked(world, KEYS, "/v1/version/get")
    asked(world, ClientKeys(anna.app_key, "guessed"), "/v1/version/get")
    world.client.get("/index.html")
    assert world.record.callers == ["anna", "anna", "owner", "-", "-"]


def test_a_route_without_a_declaration_is_for_nobody(world: World) -> None:
    [rule] = [one for one in world.app.url_map.iter_rules() if one.rule == "/v1/version/get"]

    def forgotten() -> Response:
        return ok("a secret")

    world.app.view_functions[rule.endpoint] = forgotten
    response = asked(world, KEYS, "/v1/version/get")
    assert ("a secret" in response.text, retcode(response)) == (False, 100)
