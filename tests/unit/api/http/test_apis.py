"""Each API answers errors in its own envelope, by its own table, and says nothing of a defect but an id."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flask import Blueprint, Flask, Response
from gunicorn.http.errors import NoMoreData
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from fate_flow.api.between_parties.envelope import PARTIES
from fate_flow.api.between_parties.exchange import ExchangeEnvelope
from fate_flow.api.http.client_auth import NotAuthenticated
from fate_flow.api.http.errors import Api, Envelope, register_apis
from fate_flow.api.http.request_origin import OtherSite
from fate_flow.api.v1.envelope import CLIENTS
from fate_flow.api.v2.envelope import CodeEnvelope
from fate_flow.api.workers.envelope import WORKERS
from fate_flow.core.model.errors import (
    BadRequest,
    Busy,
    FlowError,
    NotFound,
    NotOffered,
    PeerUnreachable,
    PermissionDenied,
    StorageFailed,
)


class OneWord:
    """The envelope of an API that came later."""

    def refused(self, error: FlowError) -> Response:
        return Response(f"no: {error.message}", 418)

    def not_served(self, error: HTTPException) -> Response:
        return Response("no such thing", error.code)

    def failed(self, text: str) -> Response:
        return Response(text, 599)


ENVELOPES: dict[str, Envelope] = {
    "clients": CLIENTS, "parties": PARTIES, "workers": WORKERS, "exchange": ExchangeEnvelope(), "v2": CodeEnvelope(),
    "later": OneWord(),
}  # fmt: skip
DEFECT = "unexpected error; the log of this server has the reason: error "


def app_that_raises(error: Exception) -> Flask:
    """An application with a route for each envelope, at its name, and the paths below `/v2` and `/later`."""
    app = Flask("raises", static_folder=None)

    def blueprint(name: str) -> Blueprint:
        found = Blueprint(name, __name__, url_prefix=f"/{name}")

        @found.post("/ask")
        def ask() -> Any:
            raise error

        return found

    apis = {name: Api(one, (blueprint(name),)) for name, one in ENVELOPES.items()}
    paths = {name: Api(apis[name].envelope, apis[name].blueprints, f"/{name}") for name in ("v2", "later")}
    default, *others = {**apis, **paths}.values()
    register_apis(app, default, *others)
    return app


def answer_of(response: TestResponse) -> tuple[int, Any]:
    """The HTTP status, and the code in the envelope."""
    body = response.get_json(silent=True) or {}
    return response.status_code, body.get("retcode", body.get("code"))


@pytest.mark.parametrize(("error", "expected"), [
    (BadRequest("x"), {"clients": (200, 101), "parties": (200, 101), "exchange": (400, 400), "v2": (200, 5001)}),
    (NotFound("x"), {"clients": (200, 101), "workers": (200, 101), "exchange": (500, 500), "v2": (200, 6003)}),
    (NotOffered("x"), {"clients": (200, 100), "exchange": (500, 500), "v2": (200, 6001)}),
    (PermissionDenied("x"), {"clients": (200, 108), "workers": (200, 108), "exchange": (403, 403), "v2": (200, 5005)}),
    (NotAuthenticated("x"), {"clients": (200, 109), "parties": (200, 109), "exchange": (403, 403), "v2": (200, 5004)}),
    (OtherSite("x"), {"clients": (403, 403), "parties": (403, 403), "exchange": (403, 403), "v2": (403, 5005)}),
    (PeerUnreachable("x"), {"clients": (200, 104), "exchange": (502, 502), "v2": (200, 6002)}),
    (Busy("x"), {"clients": (503, 503), "parties": (503, 503), "exchange": (503, 503), "v2": (200, 6000)}),
    (StorageFailed("x"), {"clients": (500, 500), "workers": (500, 500), "exchange": (500, 500), "v2": (200, 6000)}),
    (NoMoreData(), {"clients": (400, 400), "parties": (400, 400), "exchange": (400, 400), "v2": (400, 5001)}),
])  # fmt: skip
def test_each_api_has_its_own_table(error: Exception, expected: dict[str, tuple[int, int]]) -> None:
    client = app_that_raises(error).test_client()
    assert {name: answer_of(client.post(f"/{name}/ask")) for name in expected} == expected
    assert client.post("/later/ask").status_code == 418


def test_a_defect_is_an_id_in_every_envelope(caplog: pytest.LogCaptureFixture) -> None:
    client = app_that_raises(ValueError("secret-of-9999")).test_client()
    answers = {name: client.post(f"/{name}/ask") for name in ENVELOPES}
    assert {name: answer_of(one) for name, one in answers.items()} == {
        "clients": (200, 100), "parties": (200, 100), "workers": (200, 100), "exchange": (500, 500), "v2": (200, 6000),
        "later": (599, None),
    }  # fmt: skip
    for answer in answers.values():
        body = answer.get_json(silent=True) or {}
        text = body.get("retmsg") or body.get("message") or answer.text
        assert re.fullmatch(f"{DEFECT}[0-9a-f]{{12}}", text)
        assert f"failed: {text[-18:]}" in caplog.text
        assert "secret" not in answer.text
    assert caplog.text.count("ValueError: secret-of-9999") == len(ENVELOPES)


@pytest.mark.parametrize(("path", "expected"), [
    ("/nothing", (200, 100)), ("/v2/nothing", (200, 6000)), ("/v2", (200, 6000)), ("/v2x", (200, 100)),
    ("/later/nothing", (404, None)), ("/exchange/nothing", (200, 100)),
])  # fmt: skip
def test_a_path_without_a_route_belongs_to_the_api_that_claims_it(path: str, expected: tuple[int, int | None]) -> None:
    assert answer_of(app_that_raises(ValueError()).test_client().post(path)) == expected


def test_another_method_is_answered_in_the_envelope_of_the_path() -> None:
    client = app_that_raises(ValueError()).test_client()
    assert answer_of(client.get("/later/ask")) == (405, None)
    assert answer_of(client.get("/v2/ask")) == (200, 6000)
    assert answer_of(client.get("/clients/ask")) == (405, 405)


def test_what_all_apis_share_knows_no_retcodes() -> None:
    folder = Path(__file__).parents[4] / "fate_flow" / "api" / "http"
    assert [path.name for path in sorted(folder.glob("*.py")) if "retcode" in path.read_text(encoding="utf-8")] == []


def test_a_route_builds_no_url_and_takes_no_time_to_prepare_for_it() -> None:
    app = app_that_raises(BadRequest("x"))
    with pytest.raises(NotImplementedError, match="build no URL"):
        app.url_map.bind("localhost").build("later.ask", method="POST")
