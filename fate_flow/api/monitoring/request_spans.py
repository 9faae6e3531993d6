"""The spans of requests: of clients, with their route, and of the commands in a request of another party."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from flask import Flask, Response, g, request

from fate_flow.api.http.caller import CALLER, span_of_request, trace_of_request
from fate_flow.api.http.client_auth import OF_PAGES, is_for_clients
from fate_flow.api.http.errors import REFUSED
from fate_flow.core.metrics.command_spans import received_span
from fate_flow.core.metrics.spans import METHOD, RETCODE, ROUTE, STATUS, Span, SpanId, SpanKind, Spans
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.job import Answer
from fate_flow.core.text.trace import TRACEPARENT, span_id_in
from fate_flow.core.wire.v1.envelope import Asked
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.services.context.tracing import within

_APIS = ("/v1/", "/v2/")
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})
_READS = frozenset({"GET", "HEAD"})
_SERVER_ERROR = 500


def install_request_spans(app: Flask, spans: Spans, is_signed: bool) -> None:
    """Make a span of each request of a client that the checks let through, which are installed before. Of the board's,
    of those alone that change something: its pages ask again every few seconds. Probes have none. `is_signed`: whether
    clients sign; then what anybody may ask for has none either, as a path that nobody has."""
    if spans.is_on:
        of_requests = _RequestSpans(spans, is_signed)
        app.before_request(of_requests.begin)
        app.after_request(of_requests.end)
        app.teardown_request(of_requests.leave)


class _RequestSpans:
    def __init__(self, spans: Spans, is_signed: bool) -> None:
        self._spans = spans
        self._is_signed = is_signed

    def begin(self) -> None:
        if not _is_shown():
            return
        g.span_begun = time.time_ns()
        g.spans_left = ExitStack()
        g.spans_left.enter_context(within(SpanId(trace_of_request(), span_of_request())))

    def end(self, answer: Response) -> Response:
        begun: int | None = g.get("span_begun")
        if begun is None or self._is_of_nobody():
            return answer
        method = request.method if request.method in _METHODS else "_OTHER"
        route = request.url_rule.rule if request.url_rule is not None else ""
        shown: dict[str, str | int] = {METHOD: method, STATUS: answer.status_code}
        if route:
            shown[ROUTE] = route
        refused = request.environ.get(REFUSED)
        if isinstance(refused, FlowError):
            shown[RETCODE] = retcode_of(refused)
        error = str(answer.status_code) if answer.status_code >= _SERVER_ERROR else ""
        self._spans.add(Span(
            f"{method} {route}".rstrip(), SpanId(trace_of_request(), span_of_request()), begun, time.time_ns(),
            span_id_in(request.headers.get(TRACEPARENT)), (), SpanKind.SERVER, shown, error,
        ))  # fmt: skip
        return answer

    def _is_of_nobody(self) -> bool:
        """Return whether nobody has proved who asks. A blueprint checks the callers of pages, so after `begin`."""
        return (self._is_signed or request.path.startswith(OF_PAGES)) and CALLER not in request.environ

    def leave(self, _: BaseException | None) -> None:
        left: ExitStack | None = g.pop("spans_left", None)
        if left is not None:
            left.close()


def _is_shown() -> bool:
    if request.path.startswith(OF_PAGES):
        return request.method not in _READS
    return request.path.startswith(_APIS) and is_for_clients(request.path)


class CommandSpans:
    """The spans of the commands that one request of another party brings; they are carried out together."""

    def __init__(self, spans: Spans, asked: Sequence[Asked], caller: str) -> None:
        self._spans, self._caller = spans, caller
        self._of = [SpanId(one.command.trace, secrets.token_hex(8)) for one in asked] if spans.is_on else []
        self._asked = asked
        self._begun = time.time_ns()

    @contextmanager
    def around(self) -> Iterator[None]:
        """Let what is stored in the block belong to the commands; if it fails, all of them have."""
        try:
            with within(*self._of):
                yield
        except Exception as error:
            self._end([None] * len(self._asked), type(error).__name__)
            raise

    def end(self, answers: Sequence[Answer]) -> None:
        """Add a span for each command, with its answer."""
        self._end(answers)

    def _end(self, answers: Sequence[Answer | None], error: str = "") -> None:
        now = time.time_ns()
        for asked, known, answer in zip(self._asked, self._of, answers, strict=False):
            if known.trace:
                sender = span_id_in(asked.traceparent)
                self._spans.add(
                    received_span(asked.command, known.span, sender, self._caller, self._begun, now, answer, error)
                )
