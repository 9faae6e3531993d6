"""(17) What a span costs the thread that leaves it, while the collector refuses connections, or never answers.

No cluster is needed: one process leaves spans of requests as fast as it can, beside the thread that sends them. So this
is the worst case; a server pauses between them.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from fate_flow.core.metrics.spans import Span, SpanId, SpanKind
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.settings.settings import Settings
from fate_flow.settings.traces import TraceSettings
from tests.bench.numbers import spread

ATTRIBUTES = {"http.request.method": "POST", "http.route": "/v1/job/submit", "http.response.status_code": 200}


def measure(spans: int) -> dict[str, Any]:
    return {"collectors": {name: _cost(listening, spans) for name, listening in _COLLECTORS.items()}}


def _cost(listening: Callable[[], AbstractContextManager[str]], count: int) -> dict[str, Any]:
    with listening() as url:
        process = ProcessSpans(Settings("9999", Path("/nowhere"), traces=TraceSettings(f"{url}/v1/traces")))
        spans, took = process.start("bench"), []
        before, before_here = time.process_time(), time.thread_time()
        for number in range(count):
            span = _span(number)
            begun = time.perf_counter()
            spans.add(span)
            took.append((time.perf_counter() - begun) * 1000)
        used, used_here = time.process_time() - before, time.thread_time() - before_here
        process.finish()
    return {
        "ms": {**spread(took, digits=3), "p99": round(statistics.quantiles(took, n=100)[98], 3)},
        "cpu_ms": round(1000 * used_here / count, 3), "cpu_ms_with_sender": round(1000 * used / count, 3),
    }  # fmt: skip


def _span(number: int) -> Span:
    now = time.time_ns()
    trace = SpanId(os.urandom(16).hex(), f"{number + 1:016x}")
    return Span("POST /v1/job/submit", trace, now - 1_000_000, now, kind=SpanKind.SERVER, attributes=ATTRIBUTES)


@contextmanager
def _refuses() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    yield url


@contextmanager
def _hangs() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:        # the kernel accepts, and nobody answers
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


_COLLECTORS = {"refuses connections": _refuses, "never answers": _hangs}
