"""`/v1/staged/<worker id>/...` on the workers' listeners: a worker on a host without the home of this server.

The agent on the other host (`engines/staged/agent.py`) has a token of this worker alone. It counts until the server
knows that the worker has ended; after that every request is answered 410, and the agent ends what it still runs.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from flask import Blueprint, Response, jsonify, request

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Worker
from fate_flow.core.model.status import WorkerStatus
from fate_flow.engines.local.worker import Exit, Started
from fate_flow.engines.placed.cluster import Unreadable
from fate_flow.engines.staged.digests import Digests
from fate_flow.engines.staged.documents import NotStaged, Staged, There, staged
from fate_flow.engines.staged.folder import Incoming, Refusal, StagedFolder
from fate_flow.engines.staged.places import MOST_FILES, PIECE, StagedFile, sign_of
from fate_flow.store.contract.transaction import Store
from fate_flow.store.contract.transaction_retry import Retry

log = logging.getLogger(__name__)

_DIGEST_SECONDS = 5.0            # as long as one request waits for the digests of inputs
_MOST_KNOWN = 256


def staged_token(secret: bytes, worker_id: str) -> str:
    """Return the token of the agent of a worker; derived from its id, so a repeated launch has the same token."""
    return hmac.new(secret, f"staged:{worker_id}".encode(), sha256).hexdigest()


def claim_token(secret: bytes, worker_id: str) -> str:
    """Return what the agent of a worker shows to get its token, where others may read what it starts with."""
    return hmac.new(secret, f"claim:{worker_id}".encode(), sha256).hexdigest()


@dataclass(frozen=True)
class StagedSettings:
    """What the routes need of this server."""

    home: Path
    jobs_dir: Path
    secret: bytes
    lease_seconds: float                       # without an answer for so long, the worker ends; 0: it runs on
    most_bytes: int                            # that one worker may send
    wake: Callable[[str], None]                # the scheduler, for a job
    no_space: Callable[[], str] = lambda: ""   # why nothing is taken now; empty: there is space
    printed: Callable[[Worker], str] = lambda _: ""
    """What the job of a worker has printed, as its cluster says: an agent with a claim token has its sign there. Raises
    Unreadable."""


@dataclass
class _Routes:
    settings: StagedSettings
    store: Store
    retry: Retry = field(default_factory=Retry)
    digests: Digests = field(default_factory=Digests)
    known: dict[tuple[str, There], Staged] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    incoming: dict[Path, Incoming] = field(default_factory=dict)          # what each worker has sent
    strangers: dict[str, None] = field(default_factory=dict)              # workers whose claim token others have shown

    def worker(self, worker_id: str) -> Worker:
        """Return the worker whose token the caller has. Raises Refusal."""
        found = self._row(worker_id, staged_token(self.settings.secret, worker_id))
        if found is None or found.status is WorkerStatus.EXITED:
            raise _over(worker_id)
        return found

    def _row(self, worker_id: str, expected: str) -> Worker | None:
        """Return what is stored of the worker, if the caller has this token. Raises Refusal."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(token.encode(), expected.encode()):
            raise Refusal(401, "Authorization: this is not the token of this worker")

        def read() -> Worker | None:
            with self.store.reading() as tx:
                return tx.worker(worker_id)

        return self.retry(read)

    def folder(self, worker: Worker) -> StagedFolder:
        folder = Path(worker.handle)
        if not folder.is_absolute() or ".." in folder.parts or self.settings.jobs_dir not in folder.parents:
            raise Refusal(409, f"worker {worker.worker_id} has no folder below {self.settings.jobs_dir}")
        return StagedFolder(folder, self.settings.home, self.settings.most_bytes, self._incoming(folder))

    def _incoming(self, folder: Path) -> Incoming:
        with self.lock:
            found = self.incoming.pop(folder, None) or Incoming(folder)
            self.incoming[folder] = found                    # the last one now
            while len(self.incoming) > _MOST_KNOWN:
                self.incoming.pop(next(iter(self.incoming)))
        return found

    def staged(self, worker: Worker, there: There) -> Staged:
        found = self.known.get((worker.worker_id, there))
        if found is None:
            found = self._fresh(worker, there)
        return found

    def _fresh(self, worker: Worker, there: There) -> Staged:
        folder = self.folder(worker)
        try:
            found = staged(folder.folder, self.settings.home, there)
        except NotStaged as error:
            folder.refuse(str(error))
            self.settings.wake(worker.task.job_id)
            raise Refusal(409, str(error)) from error
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Refusal(503, f"the folder of worker {worker.worker_id} is not complete: {error}") from error
        while len(self.known) >= _MOST_KNOWN:
            self.known.pop(next(iter(self.known)))
        self.known[worker.worker_id, there] = found
        return found

    # ------------------------------------------------------------------ the routes

    def redeem(self, worker_id: str) -> Response:
        """Give the token of a worker for its claim token, once, to the agent whose sign its job has printed."""
        worker = self._row(worker_id, claim_token(self.settings.secret, worker_id))
        if worker is None or worker.status is WorkerStatus.EXITED:
            raise _over(worker_id)
        self._check_sign(worker, _runner())
        try:
            self.folder(worker).redeem(_runner())
        except Refusal:
            self.settings.wake(worker.task.job_id)
            raise
        return jsonify({"token": staged_token(self.settings.secret, worker_id)})

    def _check_sign(self, worker: Worker, runner: str) -> None:
        try:
            printed = self.settings.printed(worker)
        except Unreadable as error:
            raise Refusal(503, f"what the job of the worker has printed cannot be read now: {error}") from error
        if sign_of(runner) in printed:
            return
        with self.lock:
            is_new = worker.worker_id not in self.strangers
            while is_new and len(self.strangers) >= _MOST_KNOWN:
                self.strangers.pop(next(iter(self.strangers)))
            self.strangers[worker.worker_id] = None
        if is_new:
            log.warning(
                "worker %s: somebody shows its claim token, and its job has not printed the sign of who that is: no "
                "token is given", worker.worker_id,
            )  # fmt: skip
        raise Refusal(503, "the job of the worker has not printed the sign of this agent: no token is given before")

    def manifest(self, worker_id: str) -> Response:
        worker = self.worker(worker_id)
        what = self.staged(worker, _there())
        try:
            files = self.digests.of(what.sources, _DIGEST_SECONDS)
        except OSError as error:
            raise Refusal(409, f"an input of worker {worker_id} cannot be read: {error}") from error
        if files is None:
            raise Refusal(503, "the digests of the inputs are being computed: ask again")
        texts = [{"at": at, "text": text} for at, text in what.documents.items()]
        own = self.folder(worker).folder.relative_to(self.settings.home).as_posix()
        return jsonify({
            "folder": own, "documents": texts, "files": [one.as_json() for one in files], "grows": list(what.grows),
            "lease_seconds": self.settings.lease_seconds,
        })  # fmt: skip

    def file(self, worker_id: str) -> Response:
        what, body = self.staged(self.worker(worker_id), _there()), _body()
        source = what.sources.get(str(body.get("at")))
        if source is None:
            raise Refusal(404, f"at: {shown(body.get('at'))} is not a file of this worker")
        try:
            with source.open("rb") as opened:
                opened.seek(_whole(body, "offset"))
                return Response(opened.read(PIECE), mimetype="application/octet-stream")
        except OSError as error:
            raise Refusal(409, f"{shown(body.get('at'))} cannot be read any more: {error.strerror}") from error

    def claim(self, worker_id: str) -> Response:
        self.folder(self.worker(worker_id)).claim(_runner())
        return jsonify({})

    def started(self, worker_id: str) -> Response:
        worker = self.worker(worker_id)
        self._claimed(worker).started(_read(Started.of, _body()["processes"]))
        self.settings.wake(worker.task.job_id)
        return jsonify({})

    def alive(self, worker_id: str) -> Response:
        worker = self.worker(worker_id)
        folder, body = self._claimed(worker), _body()
        if body.get("arrived") is True and folder.arrived():
            self.settings.wake(worker.task.job_id)
        grace = folder.stop_request()
        return jsonify({"stop": None if grace is None else {"grace_seconds": grace}, "go": folder.may_go})

    def grow(self, worker_id: str) -> Response:
        worker = self.worker(worker_id)
        folder, at = self._claimed(worker), request.args.get("at", "")
        if why := self.settings.no_space():
            raise Refusal(507, why)
        path = self.staged(worker, _place_of(request.args)).grows.get(at)
        if path is None:
            raise Refusal(404, f"at: {shown(at)} is not a file of this worker that grows")
        return jsonify({"size": folder.grow(path, at, _whole(request.args, "offset"), request.get_data())})

    def put(self, worker_id: str) -> Response:
        folder = self._claimed(self.worker(worker_id))
        if why := self.settings.no_space():
            raise Refusal(507, why)
        at, offset = request.args.get("at", ""), _whole(request.args, "offset")
        return jsonify({"size": folder.take(at, offset, request.get_data())})

    def verify(self, worker_id: str) -> Response:
        self._claimed(self.worker(worker_id)).verify(_read(StagedFile.read, _body()["file"]))
        return jsonify({})

    def end(self, worker_id: str) -> Response:
        worker, body, there = self.worker(worker_id), _body(), _there()
        files = body["files"]
        if not isinstance(files, list) or len(files) > MOST_FILES:
            raise Refusal(400, f"files: is not a list of at most {MOST_FILES} files")
        sent = [_read(StagedFile.read, one) for one in files]
        end = _read(Exit.of, body["exit"])
        folder = self.folder(worker)
        folder.check_claim(_runner())
        try:
            folder.finish(end, sent, there.root, self.staged(worker, there))
        finally:
            with self.lock:
                self.incoming.pop(folder.folder, None)
        self.known.pop((worker_id, there), None)
        self.settings.wake(worker.task.job_id)
        return jsonify({})

    def _claimed(self, worker: Worker) -> StagedFolder:
        """Return the folder of a worker that the calling agent has claimed. Raises Refusal."""
        folder = self.folder(worker)
        folder.check(_runner())
        return folder


def blueprint(settings: StagedSettings, store: Store) -> Blueprint:
    """Return the routes for workers on hosts without the home of this server."""
    routes = _Routes(settings, store)
    found = Blueprint("staged", __name__, url_prefix="/v1/staged/<worker_id>")
    views: tuple[Callable[[str], Response], ...] = (
        routes.redeem, routes.manifest, routes.file, routes.claim, routes.started, routes.alive, routes.grow,
        routes.put, routes.verify, routes.end,
    )  # fmt: skip
    for view in views:
        found.add_url_rule(f"/{view.__name__}", view_func=_answering(view), methods=["POST"])
    return found


def _answering(view: Callable[[str], Response]) -> Callable[[str], Response]:
    @wraps(view)
    def answered(worker_id: str) -> Response:
        try:
            return view(worker_id)
        except Refusal as refusal:
            answer = jsonify({"retcode": refusal.status, "retmsg": refusal.text})
            answer.status_code = refusal.status
            return answer

    return answered


def _over(worker_id: str) -> Refusal:
    return Refusal(410, f"worker {worker_id} has ended for the server: its token does not count any more")


def _runner() -> str:
    """Return the name that the agent has made for itself."""
    runner = request.headers.get("X-Staged-Runner", "")
    if not 16 <= len(runner) <= 64 or not runner.isalnum():
        raise Refusal(400, "X-Staged-Runner: is not the name of a runner")
    return runner


def _body() -> Mapping[str, Any]:
    try:
        value = json.loads(request.get_data() or b"{}")
    except ValueError as error:
        raise Refusal(400, "the body is not JSON") from error
    if not isinstance(value, dict):
        raise Refusal(400, "the body is not a JSON object")
    return _Named(value)


class _Named(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise Refusal(400, f"{key}: is missing")


def _there() -> There:
    return _place_of(_body())


def _place_of(values: Mapping[str, Any]) -> There:
    root, port, package = values.get("root"), values.get("port"), values.get("package")
    is_port = str(port).isdecimal() and 0 < int(str(port)) < 65536
    for key, one in (("root", root), ("package", package)):
        if not isinstance(one, str) or not one.startswith("/") or "\0" in one or ".." in one.split("/"):
            raise Refusal(400, f"{key}: {shown(one)} is not an absolute path")
    if not is_port:
        raise Refusal(400, f"port: {shown(port)} is not a port")
    return There(str(root).rstrip("/"), f"http://127.0.0.1:{port}/v1/exchange", str(package))


def _whole(values: Mapping[str, Any], key: str) -> int:
    text = str(values.get(key, ""))
    if not text.isdecimal() or len(text) > 18:
        raise Refusal(400, f"{key}: {shown(text)} is not a number of bytes")
    return int(text)


def _read(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        return make(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(400, f"{shown(value)} cannot be read: {error}") from error
