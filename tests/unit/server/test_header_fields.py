"""Which header fields gunicorn believes: none that moves the path of a request or says what its connection was."""

from __future__ import annotations

from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.parser import RequestParser

from fate_flow.server.http_processes import HEADER_FIELDS

CALLERS = [("127.0.0.1", 4711), ("10.0.0.1", 4711), ""]      # "": behind the gateway, on a Unix socket


def environ_of(field: str, caller: Any) -> dict[str, Any]:
    config = Config()
    for name, value in HEADER_FIELDS.items():
        config.set(name, value)
    data = f"POST /v1/job/query HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n".encode()
    request = next(RequestParser(config, iter([data]), caller))
    _, environ = wsgi.create(request, None, caller, "unix:x.sock", config)
    return dict(environ)


@pytest.mark.parametrize("caller", CALLERS, ids=["loopback", "elsewhere", "gateway"])
@pytest.mark.parametrize("field", [
    "SCRIPT_NAME: /v1", "SCRIPT_NAME: x", "PATH_INFO: /v1/job/submit", "X-Forwarded-Proto: https",
    "X_FATE_FLOW_PEER: 10000", "REMOTE_ADDR: 10.0.0.2", "X-Forwarded-Protocol: ssl", "X-Forwarded-Ssl: on",
    "CONTENT_TYPE: text/plain",
])  # fmt: skip
def test_no_field_moves_a_request(field: str, caller: Any) -> None:
    plain, environ = environ_of("A: b", caller), environ_of(field, caller)
    assert {key: environ[key] for key in plain if key.isupper() and not key.startswith("HTTP_")} == {
        key: value for key, value in plain.items() if key.isupper() and not key.startswith("HTTP_")
    }
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("", "/v1/job/query")
    assert environ["wsgi.url_scheme"] == "http"
    assert not {"HTTP_SCRIPT_NAME", "HTTP_PATH_INFO", "HTTP_X_FATE_FLOW_PEER", "HTTP_CONTENT_TYPE"} & set(environ)


@pytest.mark.parametrize("caller", CALLERS, ids=["loopback", "elsewhere", "gateway"])
def test_the_app_key_of_a_client_of_fate_is_read_whatever_its_spelling(caller: Any) -> None:
    assert environ_of("APP_KEY: k", caller)["HTTP_APP_KEY"] == "k"
    assert environ_of("APP-KEY: k", caller)["HTTP_APP_KEY"] == "k"
