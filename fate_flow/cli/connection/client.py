"""The HTTP client of `flow`: it sends a request and returns a `ServerReply`, or raises `CallFailed`.

`flow` distinguishes two cases. If the server answers, `flow` prints its envelope, and the retcode decides the exit
code. If no server answers, or something that is not a FATE Flow server, the call raises `CallFailed`, which carries
the JSON to print on stdout for scripts.

requests is imported at the first request: it is half of the start of `flow --help` and of a shell's completion.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.console.display import tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.trace import ENVIRONMENT, TRACEPARENT, trace_id_in, traceparent

if TYPE_CHECKING:
    import requests
    from requests.auth import AuthBase

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 600.0
BUSY_RETRIES = 5
MOST_BUSY_SECONDS = 10.0
_CHUNK = 256 * 1024
_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")      # as requests has them
MOST_BYTES = 256 * 1024 * 1024
"""The longest answer that is read, unless it is a file; a server sends documents of up to 64 MiB."""


class CallFailed(FlowError):
    """The call failed."""

    exit_code = 1

    def __init__(self, message: str, envelope: Mapping[str, Any] | None = None) -> None:
        self.envelope = envelope or {"retcode": 100, "retmsg": message}
        super().__init__(message)


class NoAnswer(CallFailed):
    """No server answers."""

    exit_code = 3


class Body(Protocol):
    """A request body that is generated while it is sent."""

    content_type: str

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


class Target(Protocol):
    """The destination of a download."""

    def write(self, chunk: bytes, /) -> object: ...


class Client:
    """A client of one server; it looks up the address at the first request."""

    def __init__(
        self, find_address: Callable[[], Address], pause: Callable[[float], None] = time.sleep,
        seconds: tuple[float, float] = (CONNECT_SECONDS, ANSWER_SECONDS),
    ) -> None:  # fmt: skip
        self._find_address = find_address
        self.pause = pause
        self._seconds = seconds          # limits for the connection and for the answer

    def post(self, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> ServerReply:
        """Send this JSON, or no body if it is None; return the answer. Raise CallFailed if none comes."""
        with closing(self._send("POST", path, json=body, headers=headers)) as response:
            return self._answer(response)

    def submit(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> ServerReply:
        """Like `post`, but retry a few times while the server is too busy."""
        for _ in range(BUSY_RETRIES):
            answer = self.post(path, body, headers)
            if answer.retry_after_seconds is None:
                return answer
            tell(f"the server is busy ({answer.message}), trying again")
            self.pause(min(answer.retry_after_seconds, MOST_BUSY_SECONDS))
        return self.post(path, body, headers)

    def upload(self, path: str, conf: Mapping[str, Any], body: Body) -> ServerReply:
        """Send a file; return the answer. The query is the configuration: JSON with every character quoted."""
        query = quote(json.dumps(conf, separators=(",", ":"), ensure_ascii=False), safe="")
        headers = {"Content-Type": body.content_type}
        with closing(self._send("POST", f"{path}?{query}", data=body, headers=headers)) as response:
            return self._answer(response)

    def download(
        self, method: str, path: str, body: Any, target: Target, tell_name: Callable[[str], object] = str
    ) -> ServerReply | None:
        """Write the file that the server sends to `target`; return None, or the answer if it is not a file.

        `tell_name` is given the name that the server has for the file, without folders; empty if it has none."""
        response = self._send(method, path, json=body)
        with closing(response), self._errors_as_text():
            if response.status_code != 200:
                return self._answer(response)
            if "json" in response.headers.get("Content-Type", ""):
                body = self._read(response)
                if "retcode" in _json_object(body):
                    return self._answer(response, body)
                target.write(body)
                return None
            tell_name(_file_name(response.headers.get("Content-Disposition", "")))
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
    def _trace(self) -> str:
        """Of this command: that of the environment, as a program passes it on, else a new one."""
        given = os.environ.get(ENVIRONMENT, "")
        return given if trace_id_in(given) else traceparent(secrets.token_hex(16), secrets.token_hex(8))

    @cached_property
    def _session(self) -> requests.Session:
        import requests

        session = requests.Session()
        # A proxy named by the environment cannot reach a loopback address of this machine.
        session.trust_env = not _is_loopback(urlsplit(self.url).hostname or "")
        session.verify = next((path for name in _AUTHORITIES if (path := os.environ.get(name))), True)
        return session

    def _send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any
    ) -> requests.Response:
        """Send a request; the body of the answer is not read yet."""
        named = {**(headers or {}), TRACEPARENT: self._trace}
        with self._errors_as_text():
            return self._session.request(
                method, f"{self.url}/v1/{path}", headers=named, stream=True, auth=self._signature(),
                timeout=self._seconds, **content,
            )

    def _signature(self) -> AuthBase | None:
        from fate_flow.cli.connection.signature import Signature

        key, secret = self._address.app_key, self._address.secret_key
        return Signature(key, secret) if key and secret else None

    @contextmanager
    def _errors_as_text(self) -> Iterator[None]:
        """Turn every transport error into NoAnswer."""
        import requests

        try:
            yield
        except requests.RequestException as error:
            if _never_arrived(error):
                refused = "Connection refused. Please check if the fate flow service is started."
                raise NoAnswer(
                    f"no server answers at {self.url}: is it started? bin/service.sh start",
                    {"retcode": 100, "retmsg": refused},
                ) from error
            if _is_not_trusted(error):
                raise NoAnswer(
                    f"{self.url} shows a certificate that is not trusted here: {_AUTHORITIES[0]}=FILE names a file "
                    "with that of the authority that vouches for it"
                ) from error
            what = f"did not answer within {self._seconds[1]:g} s" if _is_timeout(error) else "broke the connection"
            raise NoAnswer(f"{self.url} {what}; it is unknown whether the request was carried out") from error

    def _read(self, response: requests.Response) -> bytes:
        """Return the body of an answer. Raise CallFailed if it is too long."""
        body = bytearray()
        with self._errors_as_text():
            for piece in response.iter_content(_CHUNK):
                body += piece
                if len(body) > MOST_BYTES:
                    raise CallFailed(f"the answer of {self.url} is longer than {MOST_BYTES} bytes, and is not read on")
        return bytes(body)

    def _answer(self, response: requests.Response, body: bytes | None = None) -> ServerReply:
        """Return the answer in a response; `body`: if it was read already."""
        body = self._read(response) if body is None else body
        envelope = _json_object(body)
        if not envelope:
            start = " ".join(body[:200].decode("utf-8", "replace").split())
            raise CallFailed(f"{self.url} is not a FATE Flow server: it answered HTTP {response.status_code} {start}")
        return ServerReply(response.status_code, envelope, _retry_after(response))


def data_of(answer: ServerReply) -> Mapping[str, Any]:
    """Return the data of an answer, {} if it is not an object. Raise CallFailed if the server refused."""
    if not answer.is_success:
        raise CallFailed(answer.message, answer.envelope)
    return answer.data if isinstance(answer.data, Mapping) else {}


def _file_name(disposition: str) -> str:
    found = _NAMED_FILE.search(disposition)
    return found[1] if found else ""


_NAMED_FILE = re.compile(r'filename="?([A-Za-z0-9_][A-Za-z0-9_.-]{0,199})')


def _json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of an answer; {} if it is not one."""
    try:
        document = json.loads(body)
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
    """Return whether there was no connection: the server then cannot have carried out the request."""
    from requests import ConnectTimeout
    from urllib3.exceptions import NewConnectionError

    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, ConnectTimeout) or isinstance(reason, NewConnectionError)


def _is_not_trusted(error: requests.RequestException) -> bool:
    """Return whether the handshake has failed for the certificate of the server: nothing was sent then."""
    from requests.exceptions import SSLError

    return isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error)


def _is_timeout(error: requests.RequestException) -> bool:
    from requests import Timeout

    return isinstance(error, Timeout)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
