"""Requests to the Jobs API of a Ray cluster.

Each request has a connection of its own: after a restart of Ray's head, a kept one would fail in the middle of a
submission, and nobody would know whether it arrived. Nothing is sent twice, and no redirect is followed, since it would
get the token. An answer may have `most_bytes`. Each wait for a part of it is limited, and so is the whole after each
part.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import NameResolutionError, NewConnectionError, ReadTimeoutError

from fate_flow.components.base.regular_file import open_regular
from fate_flow.engines.placed.cluster import Unreadable

JOBS = "/api/jobs/"
CONNECT_SECONDS = 5.0
_PIECE_BYTES = 64 * 1024
_MOST_TOKEN_BYTES = 16 * 1024
_MOST_PRINTED_BYTES = 4 * 1024 * 1024


class NotSent(Exception):
    """The request has not reached Ray; the text says why."""


class NoCredentials(NotSent):
    """What proves who the server or Ray is cannot be read; the text has paths, which are nothing for other parties."""


class NoAnswer(Exception):
    """Ray may have the request, but there is no complete answer; the text says why."""


@dataclass(frozen=True)
class RayAnswer:
    """A complete answer, with any status."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def document(self) -> Any:
        """Return the body as JSON. Raises ValueError if it is none."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


@dataclass(frozen=True)
class RayClient:
    """The Jobs API at one address. A token is read for each request, so a new one counts at once."""

    address: str                        # such as http://head:8265, without a slash at the end
    token_file: Path | None = None      # None: Ray asks for no token
    ca_file: Path | None = None         # of the authority of an https address; None: the usual authorities
    seconds: float = 30.0               # for a whole request

    def get(self, path: str, most_bytes: int) -> RayAnswer:
        """Raises NotSent or NoAnswer."""
        return self._exchange("GET", path, None, most_bytes)

    def printed(self, name: str) -> str:
        """Return what a job has printed; nothing before it begins. Raises Unreadable."""
        try:
            answer = self.get(f"{JOBS}{name}/logs", _MOST_PRINTED_BYTES)
            if answer.status != 200:
                raise Unreadable(f"status {answer.status}")
            found = answer.document()
        except (NotSent, NoAnswer, ValueError) as error:
            raise Unreadable(str(error)) from error
        return str(found.get("logs", "")) if isinstance(found, dict) else ""

    def post(self, path: str, document: Mapping[str, Any] | None, most_bytes: int) -> RayAnswer:
        """Raises NotSent or NoAnswer."""
        return self._exchange("POST", path, document, most_bytes)

    def delete(self, path: str, most_bytes: int) -> RayAnswer:
        """Raises NotSent or NoAnswer."""
        return self._exchange("DELETE", path, None, most_bytes)

    def _exchange(self, method: str, path: str, document: Mapping[str, Any] | None, most_bytes: int) -> RayAnswer:
        head = {"Connection": "close", "Accept-Encoding": "identity", **self._credentials()}
        if self.ca_file is not None and not self.ca_file.is_file():
            raise NoCredentials(f"{self.ca_file}, with the certificate of its authority, is not there")
        deadline = time.monotonic() + self.seconds
        with requests.Session() as session:
            session.trust_env = False      # neither a proxy of the environment nor a password of ~/.netrc
            session.mount("https://", HTTPAdapter(max_retries=0))
            session.mount("http://", HTTPAdapter(max_retries=0))
            try:
                response = session.request(
                    method, f"{self.address}{path}", json=document, headers=head, stream=True, allow_redirects=False,
                    timeout=(min(CONNECT_SECONDS, self.seconds), self.seconds), verify=str(self.ca_file or "") or True,
                )
                with closing(response):
                    return RayAnswer(response.status_code, _body_of(response, deadline, most_bytes))
            except OSError as error:                # as all errors of requests are
                causes = list(_causes(error))
                is_sent = not any(isinstance(one, _NEVER_SENT) for one in causes)
                raise (NoAnswer if is_sent else NotSent)(_text(causes, self.seconds)) from error

    def _credentials(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {_token_in(self.token_file)}"}


def _token_in(path: Path) -> str:
    """Return the token of a file. Raises NoCredentials, also if others could read it."""
    try:
        with open_regular(path) as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise NoCredentials(f"{path}, with its token, has to be of mode 0600: others could read it")
            text = file.read(_MOST_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise NoCredentials(f"{path}, with its token, cannot be read: {error.strerror}") from error
    if not text or len(text) > _MOST_TOKEN_BYTES or not text.isascii() or not text.decode("ascii").isprintable():
        raise NoCredentials(f"{path} has no token: one line of printable ASCII")
    return text.decode("ascii")


def _body_of(response: requests.Response, deadline: float, most_bytes: int) -> bytes:
    """Return the body. Raises NoAnswer if it is longer, or comes too slowly."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise NoAnswer(f"its answer has the Content-Encoding {encoding[:20]!r}, which was not asked for")
    body = bytearray()
    for piece in response.iter_content(_PIECE_BYTES):
        body += piece
        if len(body) > most_bytes:
            raise NoAnswer(f"its answer is longer than {most_bytes} bytes")
        if time.monotonic() > deadline:
            raise NoAnswer("its answer is not complete in time")
    return bytes(body)


_NEVER_SENT = (
    requests.exceptions.ConnectTimeout, requests.exceptions.InvalidURL, NewConnectionError, NameResolutionError,
    ssl.SSLCertVerificationError,
)  # fmt: skip
"""Errors before the first byte of a request. Any other may have come when Ray had the whole."""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those in it, the innermost last."""
    while True:
        yield error
        inner = [one for one in (*error.args, getattr(error, "reason", None)) if isinstance(one, BaseException)]
        if not inner:
            return
        error = inner[-1]


def _text(causes: Sequence[BaseException], seconds: float) -> str:
    """Return the text of the innermost error, one line."""
    if any(isinstance(one, requests.exceptions.ConnectTimeout) for one in causes):
        return f"no connection within {min(CONNECT_SECONDS, seconds):g} s"
    if any(isinstance(one, (requests.exceptions.Timeout, ReadTimeoutError)) for one in causes):
        return f"no answer within {seconds:g} s"
    if isinstance(causes[-1], NameResolutionError):
        return "its host name is not known"
    text = _CONNECTION.sub("", " ".join(str(causes[-1]).split())).removeprefix(_FAILED)
    return (text or type(causes[-1]).__name__)[:300]


_CONNECTION = re.compile(r"HTTPS?Connection\([^)]*\): ")
_FAILED = "Failed to establish a new connection: "
