"""The page of a log of a worker: from its begin, a part at an offset, a search, a download; and the pieces that its
script asks for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from flask import Blueprint, Response, jsonify, request

from fate_flow.api.http.gunicorn_worker import given_away
from fate_flow.api.v1.outputs.worker_output import WorkerOutput
from fate_flow.core.model.errors import BadRequest, FlowError, NotFound, NotOffered
from fate_flow.core.model.grammar import check_component_name, check_job_id, shown
from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.queries import STREAMS, TaskLogQuery
from fate_flow.web.board import Board
from fate_flow.web.logs.log_events import MOST_LOGS, LogEvents
from fate_flow.web.logs.sources import (
    LEVELS,
    PIECE,
    ComponentLog,
    Hits,
    LogSource,
    PartnerLog,
    Piece,
    WorkerLog,
    begin_of,
    end_of,
    search,
)
from fate_flow.web.pages import CALM, FRESH, HEADERS
from fate_flow.web.task_addresses import chosen_share, number, party_in, share_arguments, task_path

_LONGEST_TEXT = 200
END, OF_ATTEMPT = "end", "attempt"
_PIECE_ADDRESS = re.compile(r"/board/jobs/([^/]+)/tasks/([^/]+)/log/piece")


@dataclass(frozen=True)
class _Asked:
    """Which log is meant."""

    key: TaskKey
    is_here: bool
    share: Task | None
    stream: str
    worker: int | None
    attempt: int | None
    job_names: Mapping[str, str]     # of the job, by its id

    def path(self, page: str = "log", /, **arguments: object) -> str:
        given = {**share_arguments(self.key), "stream": self.stream, "worker": self.worker, "attempt": self.attempt}
        return task_path(self.key.job_id, self.key.name, page, **{**given, **arguments})


def add_log_pages(routes: Blueprint, board: Board) -> None:
    pages = _LogPages(board)
    routes.get("/jobs/<job_id>/tasks/<name>/log")(pages.log)
    routes.get("/jobs/<job_id>/tasks/<name>/log/piece")(pages.log_piece)
    routes.get("/jobs/<job_id>/tasks/<name>/log/file")(pages.log_file)
    routes.get("/log-events")(pages.log_events)


class _LogPages:
    def __init__(self, board: Board) -> None:
        self._board, self._services = board, board.services
        self._output = WorkerOutput(board.services.context)
        self._events = LogEvents()

    def log(self, job_id: str, name: str) -> Response:
        self._board.check_may("read_logs", "logs of workers")
        asked, reviews = self._asked(job_id, name, request.args)
        wanted = request.args.get("find", "")
        if len(wanted) > _LONGEST_TEXT or not wanted.isprintable():
            raise BadRequest(f"find: is longer than {_LONGEST_TEXT} characters, or not printable")
        piece, hits, problem, at = None, None, "", 0
        try:
            with self._place(asked):
                source = self._source(asked)
                at = _offset(source, asked)
                if wanted:
                    hits = search(source, wanted, at)
                else:
                    piece = source.piece(at, PIECE)
        except FlowError as error:
            if isinstance(error, BadRequest):
                raise
            problem = error.message
        return self._board.show(
            "log.html", reviews=reviews, poll=0 if piece or hits else CALM, asked=asked, piece=piece, hits=hits,
            problem=problem, at=at, wanted=wanted, is_end=request.args.get("at") == END, end=END,
            of_attempt=OF_ATTEMPT,
            streams=(*STREAMS, *(LEVELS if asked.is_here else ())), levels=LEVELS,
            follow=FRESH if asked.is_here else CALM, before=max(0, at - PIECE),
            search_on=_search_on(asked, wanted, hits), command=_command(asked),
        )  # fmt: skip

    def log_piece(self, job_id: str, name: str) -> Response:
        """Return the next piece for the script; 304 while there is nothing new."""
        self._board.check_may("read_logs", "logs of workers")
        asked, _ = self._asked(job_id, name, request.args)
        with self._place(asked):
            found = self._source(asked).piece(number(request.args, "at") or 0, PIECE)
        response = jsonify(text=found.text, next=found.next, total=found.total, over=found.is_over)
        response.headers.update(HEADERS)
        response.set_etag(_tag(found), weak=True)
        response.make_conditional(request)
        return response

    def log_file(self, job_id: str, name: str) -> Response:
        self._board.check_may("read_logs", "logs of workers")
        asked, _ = self._asked(job_id, name, request.args)
        file_name = f"{name}-{asked.key.party.role}-{asked.key.party.party_id}-{asked.stream}.log"
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{file_name}"'}
        with ExitStack() as opened:
            opened.enter_context(self._place(asked))
            found = self._source(asked).download()
            opened.callback(found.close)
            response = Response(found, mimetype="text/plain", headers=headers)
            if found.size is not None:
                response.content_length = found.size
            response.call_on_close(opened.pop_all().close)
        return response

    @contextmanager
    def _place(self, asked: _Asked) -> Iterator[None]:
        """Take one of the few places of requests that wait for another party. Raise Busy."""
        if asked.is_here:
            yield
            return
        with self._board.partner_places.one():
            yield

    def log_events(self) -> Response:
        """Tell the browser, until it goes, which of the logs of its pages have grown (`log`: addresses of pieces)."""
        self._board.check_may("read_logs", "logs of workers")
        addresses = request.args.getlist("log")
        if not 0 < len(addresses) <= MOST_LOGS:
            raise BadRequest(f"log: {len(addresses)} logs are asked for; 1 to {MOST_LOGS} can be followed")
        self._events.take_place()
        try:
            files = [self._file(one) for one in addresses]
            if not any(files):
                raise NotFound("log: none of these logs is here")
            connection = given_away(request.environ) if request.method == "GET" else None
            if connection is None:
                raise NotOffered("events need GET, and the server that `fate_flow serve` starts")
        except Exception:                    # whatever it was: a place that is not given back is lost until a restart
            self._events.give_place_back()
            raise
        self._events.add(connection, HEADERS, files)
        return Response(mimetype="text/event-stream")

    def _file(self, address: str) -> Path | None:
        """Return the file of a log, by the address of its pieces; None if there is none yet. Raise BadRequest."""
        path, _, query = address.partition("?")
        found = _PIECE_ADDRESS.fullmatch(path)
        if found is None:
            raise BadRequest(f"log: {shown(address)} is not an address of the pieces of a log")
        try:
            asked, _ = self._asked(found[1], unquote(found[2]), dict(parse_qsl(query)))
            return self._source(asked).path if asked.is_here else None
        except NotFound:
            return None

    def _asked(self, job_id: str, name: str, given: Mapping[str, str]) -> tuple[_Asked, int]:
        """Return which log is meant, and the number of reviews. Raise NotFound, BadRequest."""
        found = self._board.queries.task(check_job_id(job_id), check_component_name(name, "task"))
        if found is None:
            raise self._board.unknown(job_id)
        party, version, stream = party_in(given), number(given, "version"), given.get("stream")
        share = chosen_share(found, party, version)
        own = {job.party for job in found.jobs}
        party = party or (share.key.party if share is not None else found.jobs[0].party)
        is_here = party in own
        stream = stream or STREAMS[0]
        known = (*STREAMS, *LEVELS) if is_here else STREAMS
        if stream not in known:
            raise BadRequest(f"stream: {shown(stream)} is not one of {', '.join(known)}")
        version = version if version is not None else share.key.version if share is not None else 0
        key = TaskKey(job_id, name, version, Party(party.role, party.party_id))
        return _Asked(
            key, is_here, share, stream, number(given, "worker"), number(given, "attempt"), found.job_names
        ), found.reviews

    def _source(self, asked: _Asked) -> LogSource:
        """Return the log. Raise NotFound."""
        if asked.stream in LEVELS:
            is_over = asked.share is not None and asked.share.is_over_here
            return ComponentLog(self._board.settings.log_dir, asked.key, asked.stream, is_over=is_over)
        key = asked.key
        query = TaskLogQuery(
            key.job_id, key.name, key.party, asked.stream, worker=asked.worker, attempt=asked.attempt,
            version=key.version,
        )  # fmt: skip
        if asked.is_here:
            return WorkerLog(self._output.find(query, alone=True))
        return PartnerLog(self._services.asking_for_logs(key.job_id), query)


def _offset(source: LogSource, asked: _Asked) -> int:
    """Return the offset that is asked for. Raise BadRequest."""
    at = request.args.get("at")
    if at == END:
        return end_of(source)
    if at == OF_ATTEMPT:
        begun = asked.share.start_time if asked.share is not None and asked.stream in LEVELS else None
        return begin_of(source, begun) if begun else 0
    return number(request.args, "at") or 0


def _tag(piece: Piece) -> str:
    text = f"{piece.next} {piece.total} {piece.is_over}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _search_on(asked: _Asked, wanted: str, hits: Hits | None) -> str:
    return asked.path(at=hits.next, find=wanted) if hits is not None and hits.next else ""


def _command(asked: _Asked) -> str:
    key = asked.key
    if asked.stream in LEVELS:
        return f"flow job log -j {key.job_id} -o ."
    options = [f"-r {key.party.role} -p {key.party.party_id} -v {key.version}"]
    options += [] if asked.worker is None else [f"--worker {asked.worker}"]
    options += [] if asked.attempt is None else [f"--attempt {asked.attempt}"]
    options += [] if asked.stream == STREAMS[0] else [f"--stream {asked.stream}"]
    return f"flow task log -j {key.job_id} -cpn {key.name} {' '.join(options)}"
