"""Points at which a test kills a whole server, to check that nothing is lost there (tests/chaos/crash_points.py).

The product knows nothing of them. `crashing_server.py` puts them around parts of a server that `warm_process.py` forks,
if the environment has `FATE_FLOW_CRASH_POINTS`.

`<home>/run/crash_points.json` says where: `{"at": "commit:17"}` is the 17th commit after the file was written. It also
keeps the count of each kind for all processes of the server together, and whether it has happened: it does once. With
`"at": ""` the points are only counted; without the file nothing happens.

| kind | the server dies |
|---|---|
| `commit` | right after a transaction was committed, before anything follows from it |
| `effect` | right before an effect of a commit is carried out: a worker is launched, a session is closed |
| `send` | right before a command leaves for another party |
| `answer` | when the answer to a command has arrived, before it is processed |
| `reply` | when a party's request is carried out and committed, before the reply leaves |

Heartbeats are left out: their number depends on how long a job takes.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from flask import Flask

    from fate_flow.peers.peer_senders import RequestLog
    from fate_flow.services.context.ports import BoundEffect, Context
    from fate_flow.store.contract.transaction import Store, Transaction

SWITCH = "FATE_FLOW_CRASH_POINTS"
FILE = "crash_points.json"
KINDS = ("commit", "effect", "send", "answer", "reply")

Kind = Literal["commit", "effect", "send", "answer", "reply"]
CarryOut = Callable[[Sequence["BoundEffect"]], None]


class CrashPoints:
    """Counts the points that a server passes, and kills the server at the one that the file names."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def reached(self, kind: Kind) -> None:
        """Count a point; kill the server if it is the one in the file."""
        try:
            file = self._path.open("r+", encoding="utf-8")
        except FileNotFoundError:
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            state = json.load(file)
            counts = state.setdefault("counts", {})
            counts[kind] = counts.get(kind, 0) + 1
            is_here = state.get("at") == f"{kind}:{counts[kind]}" and not state.get("fired")
            if is_here:
                state["fired"] = True
            file.seek(0)
            json.dump(state, file)
            file.truncate()
            file.flush()
            if is_here:
                os.killpg(os.getpgrp(), signal.SIGKILL)    # the supervisor leads the group; workers have left it

    def around_context(self, context: Context) -> Context:
        carry_out = self.around_effects(context.carry_out)
        return replace(context, store=self.around_store(context.store), carry_out=carry_out)

    def around_store(self, store: Store) -> Store:
        return _Store(store, self)

    def around_effects(self, carry_out: CarryOut) -> CarryOut:
        def counted(effect: BoundEffect) -> BoundEffect:
            def run() -> None:
                self.reached("effect")
                effect()

            return run

        return lambda effects: carry_out([counted(effect) for effect in effects])

    def around_sender_log(self, record: RequestLog) -> RequestLog:
        return _SenderLog(record, self)

    def around_app(self, app: Flask) -> Flask:
        app.wsgi_app = self.around_replies(app.wsgi_app)  # type: ignore[assignment,method-assign]  # Flask's own hook
        return app

    def around_replies(self, app: WSGIApplication) -> WSGIApplication:
        def served(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            answer = app(environ, start_response)
            if "HTTP_SRC_PARTY_ID" in environ and not environ["PATH_INFO"].endswith("/heartbeat"):
                self.reached("reply")
            return answer

        return served


class _Store:
    """A store whose commits are points."""

    def __init__(self, store: Store, points: CrashPoints) -> None:
        self._store, self._points = store, points

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._store.reading()

    def snapshot(self) -> AbstractContextManager[Transaction]:
        return self._store.snapshot()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._store.transaction() as unit:
            yield unit
        self._points.reached("commit")


class _SenderLog:
    """A request log whose entries are points: before a request is sent, and after its answer."""

    def __init__(self, record: RequestLog, points: CrashPoints) -> None:
        self._record, self._points = record, points

    def requested(self, job_id: str, url: str) -> None:
        self._record.requested(job_id, url)
        self._points.reached("send")

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None:
        self._record.answered(job_id, endpoint, body)
        self._points.reached("answer")
