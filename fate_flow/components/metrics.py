"""For the user's own programs (component Command): report metrics while the program runs.

    import os, sys
    sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
    from fate_flow.components.metrics import reporter

    metrics = reporter()
    for number in range(rounds):
        ...
        metrics.step("loss", loss, number)
    metrics.report("evaluation", {"auc": 0.91})

They reach the own server within half a second of the next report, and when the program ends; a program that is killed
loses those that were not sent yet. A report never fails the program: what the server does not take is named once in
the log. This module needs only Python 3.11.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

from fate_flow.components.base.own_servers import ExchangeAddress
from fate_flow.core.metrics.form import DEFAULT_GROUP, Kept, joined, read_metric

log = logging.getLogger("fate_flow.metrics")

SEND_SECONDS = 0.5
_TIMEOUT_SECONDS = 60.0
_MOST_WAITING = 10_000             # points that wait for a server that does not answer; then the oldest metrics go
Post = Callable[[bytes], str]
"""Send a body; return why it was refused, empty if it was taken. Raises OSError or HTTPException without an answer."""


@dataclass
class Sender:
    """Collects metrics, and sends them together. Several threads may use it."""

    post: Post
    now: Callable[[], float] = time.monotonic
    _waiting: list[Kept] = field(default_factory=list)
    _last: float = float("-inf")
    _is_reported: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, metrics: Sequence[Kept]) -> None:
        """Take metrics, and send all that wait unless something was sent a moment ago."""
        with self._lock:
            self._waiting = joined([*self._waiting, *metrics])
            is_due = self.now() - self._last >= SEND_SECONDS
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Send what waits. If nobody answers, it waits for the next time."""
        with self._lock:
            listed, self._waiting, self._last = self._waiting, [], self.now()
            if not listed:
                return
            try:
                refused = self.post(json.dumps({"data": listed}).encode())
                self._report(refused)
            except (OSError, HTTPException) as error:
                self._report(f"the server does not answer: {error}")
                self._waiting = listed if sum(len(one["data"]) for one in listed) <= _MOST_WAITING else []

    def _report(self, why: str) -> None:
        if why and not self._is_reported:
            self._is_reported = True
            log.warning("metrics are not recorded: %s", why)


def post_to(exchange_url: str, token: str, servers: str = "") -> Post:
    """Return a function that sends metrics to the own server, whose exchange has this address.

    `servers`: the folder with the addresses of the party's servers, if it has several."""
    exchange = ExchangeAddress(exchange_url, servers)
    path = f"{exchange.parts.path.rstrip('/').removesuffix('/exchange')}/metrics"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(body: bytes) -> str:
        url, parts = exchange.url, exchange.parts
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("POST", path, body, headers)
            said = _answer(connection)
        except ValueError as error:
            return f"the answer is not JSON: {error}"
        except (OSError, HTTPException):
            exchange.try_another(url)
            raise
        finally:
            connection.close()
        return "" if isinstance(said, dict) and said.get("retcode") == 0 else str(said)

    return post


def _answer(connection: HTTPConnection) -> Any:
    """Return the answer to what was sent, or text about a missing one. Then the server has the metrics nevertheless:
    sent again, their points would be there twice."""
    try:
        return json.loads(connection.getresponse().read())
    except TimeoutError:
        return f"the server has not said within {connection.timeout:g} s whether it took them"


@dataclass(frozen=True)
class Reporter:
    """Reports the metrics of one worker."""

    sender: Sender
    groups: tuple[Mapping[str, Any], ...] = ({"name": DEFAULT_GROUP, "index": None},)

    def step(self, name: str, value: float, step: int, axis: str = "iterations", kind: str = "") -> None:
        """Report one point of a curve, such as the loss of an iteration. `kind`: what it is, if not its name."""
        point = {"metric": value, "step": step, "timestamp": time.time()}
        self._add({"name": name, "type": kind or name, "step_axis": axis, "data": [point]})

    def report(self, name: str, data: Mapping[str, Any] | Sequence[Any], kind: str = "") -> None:
        """Report a metric that is no curve; reported again, it replaces the earlier one."""
        self._add({"name": name, "type": kind or name, "step_axis": None, "data": data})

    def flush(self) -> None:
        """Send at once what has not been sent yet."""
        self.sender.flush()

    def _add(self, metric: Mapping[str, Any]) -> None:
        self.sender.add([read_metric({**metric, "groups": list(self.groups)})])


def reporter(environment: Mapping[str, str] = os.environ) -> Reporter:
    """Return the reporter of the worker with this environment. Raises KeyError if the process is not a worker.

    If its party has several ranked workers, each has a group of its own for its metrics."""
    post = post_to(
        environment["FATE_FLOW_EXCHANGE_URL"], environment["FATE_FLOW_EXCHANGE_TOKEN"],
        environment.get("FATE_FLOW_EXCHANGE_SERVERS", ""),
    )
    found = Reporter(Sender(post))
    if int(environment.get("FATE_FLOW_PARTY_SIZE", "1")) > 1 or "FATE_FLOW_PARTY_RANK" not in environment:
        place = environment.get("FATE_FLOW_PARTY_RANK") or environment["FATE_FLOW_WORKER_SLOT"]
        found = Reporter(found.sender, (*found.groups, {"name": "rank", "index": int(place)}))
    atexit.register(found.flush)
    return found
