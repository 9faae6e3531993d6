"""The HTTP client of `flow`: a request in, an `ServerReply` out, and one kind of error for all that keeps it away.

`flow` tells two cases apart. A server that answers has decided: its envelope is printed, and the exit code follows
from the retcode. Where none answers, or something that is no FATE Flow server, the call raises `CallFailed`, which
carries what a script finds on stdout.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import NewConnectionError

from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.connection.signature import Signature
from fate_flow.cli.console.display import tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.core.model.errors import FlowError

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 600.0
BUSY_RETRIES = 5
MOST_BUSY_SECONDS = 10.0
_CHUNK = 256 * 1024


class CallFailed(FlowError):
    """The call did not do what it was for."""

    exit_code = 1

    def __init__(self, message: str, envelope: Mapping[str, Any] | None = None) -> None:
        self.envelope = envelope or {"retcode": 100, "retmsg": message}
        super().__init__(message)


class NoAnswer(CallFailed):
    """No server answers."""

    exit_code = 3


class Body(Protocol):
    """A request body that is made while it is sent."""

    content_type: str

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


class Target(Protocol):
    """What a file is written into as it comes."""

    def write(self, chunk: bytes, /) -> object: ...


class Client:
    """Talks to one server, whose address is looked up at the first request."""

    def __init__(
        self, find_address: Callable[[], Address], pause: Callable[[float], None] = time.sleep,
        seconds: tuple[float, float] = (CONNECT_SECONDS, ANSWER_SECONDS),
    ) -> None:  # fmt: skip
        self._find_address = find_address
        self.pause = pause
        self._seconds = seconds          # until there is a connection, and until there is an answer

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ServerReply:
        """The answer to this JSON; no body at all when it is None. Raises CallFailed when there is no answer."""
        return self._answer(self._send("POST", path, json=body, headers=headers))

    def submit(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> ServerReply:
        """As `post`, but asks again, a few times, while the server is too busy to take it."""
        for _ in range(BUSY_RETRIES):
            answer = self.post(path, body, headers)
            if answer.retry_after_seconds is None:
                return answer
            tell(f"the server is busy ({answer.message}), trying again")
            self.pause(min(answer.retry_after_seconds, MOST_BUSY_SECONDS))
        return self.post(path, body, headers)

    def upload(self, path: str, conf: Mapping[str, Any], body: Body) -> ServerReply:
        """The answer to a file; the configuration rides in the query, as JSON with everything quoted."""
        query = quote(json.dumps(conf, separators=(",", ":"), ensure_ascii=False), safe="")
        headers = {"Content-Type": body.content_type}
        return self._answer(self._send("POST", f"{path}?{query}", data=body, headers=headers))

    def download(self, method: str, path: str, body: Any, target: Target) -> ServerReply | None:
        """None when what came is the file and has been written; the answer when the server said something else."""
        response = self._send(method, path, json=body, stream=True)
        with closing(response), self._errors_as_text():
            if response.status_code != 200:
                return self._answer(response)
            if "json" in response.headers.get("Content-Type", "") and "retcode" in _json_object(response):
                return self._answer(response)
            for chunk in response.iter_content(_CHUNK):
                target.write(chunk)
        return None

    @property
    def url(self) -> str:
        return self._address.url

    @cached_property
    def _address(self) -> Address:
        return self._find_address()

    @cached_property
    def _session(self) -> requests.Session:
        session = requests.Session()
        # A proxy of the environment cannot reach a loopback address of this machine.
        session.trust_env = not _is_loopback(urlsplit(self.url).hostname or "")
        return session

    def _send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, stream: bool = False, **content: Any
    ) -> requests.Response:
        with self._errors_as_text():
            return self._session.request(
                method, f"{self.url}/v1/{path}", headers=headers, stream=stream, auth=self._signature(),
                timeout=self._seconds, **content,
            )

    def _signature(self) -> AuthBase | None:
        key, secret = self._address.app_key, self._address.secret_key
        return Signature(key, secret) if key and secret else None

    @contextmanager
    def _errors_as_text(self) -> Iterator[None]:
        """Makes NoAnswer of all that can go wrong on the way."""
        try:
            yield
        except requests.RequestException as error:
            if _never_arrived(error):
                refused = "Connection refused. Please check if the fate flow service is started."
                raise NoAnswer(
                    f"no server answers at {self.url}: is it started? bin/service.sh start",
                    {"retcode": 100, "retmsg": refused},
                ) from error
            what = f"did not answer within {self._seconds[1]:g} s" if _is_timeout(error) else "broke the connection"
            raise NoAnswer(f"{self.url} {what}; whether it did what was asked is not known") from error

    def _answer(self, response: requests.Response) -> ServerReply:
        envelope = _json_object(response)
        if not envelope:
            start = " ".join(response.text[:200].split())
            raise CallFailed(f"{self.url} is no FATE Flow server: it answered HTTP {response.status_code} {start}")
        return ServerReply(response.status_code, envelope, _retry_after(response))


def data_of(answer: ServerReply) -> Mapping[str, Any]:
    """The data of an answer that is not to be printed as it came. Raises CallFailed when the server refused."""
    if not answer.is_success:
        raise CallFailed(answer.message, answer.envelope)
    return answer.data if isinstance(answer.data, Mapping) else {}


def _json_object(response: requests.Response) -> dict[str, Any]:
    """What came, empty when it is no JSON object."""
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _retry_after(response: requests.Response) -> float | None:
    if response.status_code != 503 or "Retry-After" not in response.headers:
        return None
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except ValueError:              # a date
        return 1.0


def _never_arrived(error: requests.RequestException) -> bool:
    """Whether there was no connection, so that the request cannot have been carried out."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError)


def _is_timeout(error: requests.RequestException) -> bool:
    return isinstance(error, requests.Timeout)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
