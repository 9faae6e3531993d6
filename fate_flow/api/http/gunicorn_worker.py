"""gunicorn's worker with threads, in which a slow caller holds no thread.

gunicorn gives a connection to a thread that then waits for the head and the body, as long as the caller likes: as many
half requests as threads would silence everybody. Here the main thread collects a request without waiting, and a thread
gets it when it is complete. A thread waits only for the bodies that are too large to be collected. So few of them are
read at once that other threads stay free, and each piece of a body or of an answer has its deadline.

If a caller asks again right after an answer, its thread waits some milliseconds for the next request: to hand a
connection to the main thread and back costs nearly as much as a short request. At most half of the threads wait so, and
whoever waits for a thread comes before the next request of a connection, after these milliseconds at most.

Requests of a few routes that only read are carried out one at a time in a process. Python runs one thread at a time
anyway, and threads that take its lock from each other at each statement make each request take nearly twice as long.

The main thread also waits for the ends of connections that the server has ended.
"""

from __future__ import annotations

import errno
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from selectors import EVENT_READ
from threading import Lock
from typing import Any

from gunicorn import util
from gunicorn.http import errors
from gunicorn.workers.gthread import TConn, ThreadWorker

from fate_flow.api.http.caller_socket import CallerSocket, Collected, token_in
from fate_flow.api.http.unread import UNREADABLE, BodyOf, answer, status_of, text_of

_DISCARDED = 64 * 1024       # of what a caller sends after the end of its connection
_END_SECONDS = 2.0           # for a caller to read the last answer
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_GONE = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED)
_SIGN_SECONDS = 10.0         # between two signs of life of a worker that nobody asks
_ALONE_SECONDS = 0.05        # that a request waits for those before it: one of them may wait for the database
_AT_ONCE_SECONDS = 0.01      # from an answer to the next request: so long, its thread waits for it
_PAUSE_SECONDS = 0.1         # if no connection can be accepted for lack of descriptors

Step = Callable[[Any], None]


@dataclass(frozen=True)
class TokenLimits:
    """What all requests with one token may take. With these, a large body counts only until it was read: what happens
    then may need another party. What does not fit waits."""

    requests: int                     # that are under way, and threads that wait for the next one
    bodies: int                       # threads that may read large bodies at once


@dataclass(frozen=True)
class CallerLimits:
    """What slow callers may take. A caller is a TCP connection: who has reached a Unix socket is one of this server."""

    bodies: int                       # threads that may read large bodies at once
    seconds: float = 10.0             # for a small request, and for each piece of a large body or of an answer
    wait_seconds: float = 30.0        # as long as a request waits for one of the threads
    earned_seconds: float | None = None    # of waiting, by each piece: `seconds` are for all together; None: for each
    tokens: TokenLimits | None = None
    alone: tuple[bytes, ...] = ()     # how requests begin that are carried out one at a time; none may wait for another


class _EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn is not typed
    """`pending_conns`, of gunicorn: connections whose request is not complete. `_queued`: those that
    wait for a thread. `_ends`: those that the server has ended. The deadlines of each grow from first to last."""

    body_of: BodyOf
    limits: CallerLimits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lock = Lock()                   # for `_bodies`, for what goes into `_queued`, and for these counts
        self._given = 0                       # connections that a thread has, or that wait for one
        self._waiters = 0                     # threads that wait for the next request of their connection
        self._bodies: dict[Any, bytes] = {}   # connections whose thread may wait, and their tokens
        self._alone = Lock()                  # of the thread with a request of `limits.alone`
        self._under_way: Counter[bytes] = Counter()        # requests by their tokens, if those have limits
        self._queued: deque[Any] = deque()
        self._ends: deque[Any] = deque()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait until something comes, or the next of our deadlines; gunicorn would look at them each second."""
        super().wait_for_and_dispatch_events(self._patience() if self.alive else timeout)

    def _patience(self) -> float:
        lines = (self.pending_conns, self.keepalived_conns, self._queued, self._ends)
        first = min((line[0].timeout for line in lines if line), default=float("inf"))
        return float(min(max(0.0, first - time.monotonic()), _SIGN_SECONDS))

    # ------------------------------------------------------------------ requests that come (in the main thread)

    def accept(self, listener: Any) -> None:
        try:
            made, address = listener.accept()
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                self.log.warning("no connection can be accepted: %s", error.strerror)
                if not self._drop_oldest():
                    time.sleep(_PAUSE_SECONDS)
            elif error.errno not in _GONE:
                raise
            return
        if self.nr_conns + 1 >= self.worker_connections:
            self._drop_oldest()
        self.nr_conns += 1
        sock = CallerSocket(made, self.limits.seconds, self.limits.earned_seconds)
        conn = TConn(self.cfg, sock, address, listener.getsockname())
        conn.data_ready = True           # gunicorn's threads need not wait for a first byte
        self._collect(conn)

    def on_client_socket_readable(self, conn: Any, client: socket.socket) -> None:
        """Something comes over a connection that was kept after an answer."""
        if client.fileno() != -1:
            self._unwait(conn, self.keepalived_conns)
            conn.sock.asks_at_once = time.monotonic() - conn.sock.answered_at < _AT_ONCE_SECONDS
            self._collect(conn)

    def _collect(self, conn: Any) -> None:
        """Collect the next request of a connection that is in no line."""
        if (step := self._next_step(conn)) is not None:
            step(conn)
        else:
            self._wait(conn, self.pending_conns, self.limits.seconds, self._on_more)

    def _on_more(self, conn: Any, sock: CallerSocket) -> None:
        if sock.fileno() != -1 and (step := self._next_step(conn)) is not None:
            self._unwait(conn, self.pending_conns)
            step(conn)

    def _next_step(self, conn: Any) -> Step | None:
        """Read what is there. Return what to do with the connection; None: wait for more."""
        sock: CallerSocket = conn.sock
        if (found := sock.has()) is Collected.A_PART:
            count = sock.collect()
            if count == 0:
                return self._hand_over if sock.ahead else self._close
            found = sock.has()
        if found is Collected.A_PART:
            return None
        return self._hand_over if found is Collected.ALL else self._receive_large

    def _hand_over(self, conn: Any) -> None:
        self._begin_or_queue(conn, is_large=False)

    def _receive_large(self, conn: Any) -> None:
        self._begin_or_queue(conn, is_large=True)

    def _begin_or_queue(self, conn: Any, *, is_large: bool) -> None:
        """Give a request to a thread, now or when others have ended."""
        sock: CallerSocket = conn.sock
        sock.is_large = is_large
        if self._has_token_limits(sock):
            sock.token = token_in(sock.ahead)
        with self._lock:
            may = self._may_begin(sock)
            if not may:
                conn.timeout = time.monotonic() + self.limits.wait_seconds
                self._queued.append(conn)
        if may:
            self._begin(conn)

    def _has_token_limits(self, sock: CallerSocket) -> bool:
        return self.limits.tokens is not None and not sock.is_inside

    def _may_begin(self, sock: CallerSocket) -> bool:
        if sock.is_inside:
            return True
        tokens = self.limits.tokens
        if tokens is not None and self._under_way.get(sock.token, 0) >= tokens.requests:
            return False
        if not sock.is_large:
            return True
        found = list(self._bodies.values())
        return len(found) < self.limits.bodies and (tokens is None or found.count(sock.token) < tokens.bodies)

    def _begin(self, conn: Any) -> None:
        sock: CallerSocket = conn.sock
        when_read = None
        if self._has_token_limits(sock):
            self._under_way[sock.token] += 1
        if sock.is_large and not sock.is_inside:
            with self._lock:
                self._bodies[conn] = sock.token
            if self.limits.tokens is not None:
                when_read = partial(self._is_read, conn)
        sock.begin(may_wait=sock.is_large, when_read=when_read)
        with self._lock:
            self._given += 1
        self.enqueue_req(conn)

    def _is_read(self, conn: Any) -> None:
        """The body has come (in a thread)."""
        with self._lock:
            was_one = self._bodies.pop(conn, None) is not None
            others_wait = was_one and bool(self._queued)
        if others_wait:
            self.method_queue.defer(self._begin_queued)

    def _begin_queued(self) -> None:
        """Give those requests to threads that may begin now."""
        for conn in list(self._queued):
            with self._lock:
                if may := self._may_begin(conn.sock):
                    self._queued.remove(conn)
            if may:
                self._begin(conn)

    # ------------------------------------------------------------------ after a request (in the main thread)

    def finish_request(self, conn: Any, fs: Any) -> None:
        if conn.sock.is_large:
            with self._lock:
                self._bodies.pop(conn, None)
        if self._has_token_limits(conn.sock):
            self._under_way[conn.sock.token] -= 1
            if not self._under_way[conn.sock.token]:
                del self._under_way[conn.sock.token]
        if self._queued:
            self._begin_queued()
        if conn.sock.is_given_away:
            self._close(conn)                # only this descriptor: the connection lives
            return
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._end(conn)
            return
        conn.sock.ahead[:0] = conn.parser.unreader.take_buffered()         # the beginning of the next request
        if conn.sock.ahead:
            conn.sock.setblocking(False)
            self._collect(conn)
        else:
            super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        """End what is too late; gunicorn calls this after each wait."""
        now = time.monotonic()
        while (conn := _late(self.pending_conns, now)) is not None:
            self._unwait(conn, self.pending_conns)
            if conn.sock.ahead:
                self._refuse(conn, 408)
            else:
                self._close(conn)
        while (conn := _late(self._queued, now)) is not None:
            self._queued.remove(conn)
            self._refuse(conn, 503)
        while (conn := _late(self._ends, now)) is not None:
            self._unwait(conn, self._ends)
            self._close(conn)
        if not self.alive:
            for conn in [one for one in self.pending_conns if not one.sock.ahead]:
                self._unwait(conn, self.pending_conns)
                self._close(conn)

    # ------------------------------------------------------------------ connections that end (in the main thread)

    def _refuse(self, conn: Any, status: int) -> None:
        with suppress(OSError):             # the caller has gone, or does not read
            conn.sock.setblocking(False)
            conn.sock.sendall(answer(status, type(self).body_of(status, UNREADABLE[status])))
        self._end(conn)

    def _end(self, conn: Any) -> None:
        """End our direction, and wait until the caller has ended the other one: what it has not read yet would be
        thrown away."""
        conn.sock.ahead.clear()
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:                     # it has ended
            self._close(conn)
        else:
            self._wait(conn, self._ends, _END_SECONDS, self._on_end)

    def _on_end(self, conn: Any, sock: CallerSocket) -> None:
        if sock.fileno() != -1 and (sock.collect() == 0 or len(sock.ahead) > _DISCARDED):
            self._unwait(conn, self._ends)
            self._close(conn)

    def _drop_oldest(self) -> bool:
        """Close the oldest connection without a complete request; return whether there was one. Honest requests follow
        their connections at once, so those that are left are the honest ones."""
        for line in (self._ends, self.pending_conns, self.keepalived_conns):
            for conn in line:
                if not conn.sock.is_inside:
                    self._unwait(conn, line)
                    self._close(conn)
                    return True
        if not self._queued:
            return False
        with self._lock:
            oldest = self._queued.popleft()
        self._close(oldest)
        return True

    def _wait(self, conn: Any, line: deque[Any], seconds: float, then: Callable[[Any, CallerSocket], None]) -> None:
        conn.timeout = time.monotonic() + seconds
        line.append(conn)
        self.poller.register(conn.sock, EVENT_READ, partial(then, conn))

    def _unwait(self, conn: Any, line: deque[Any]) -> None:
        self.poller.unregister(conn.sock)
        line.remove(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()

    # ------------------------------------------------------------------ in the threads

    def handle(self, conn: Any) -> Any:
        """Carry out a request, and those that follow it at once over the same connection."""
        try:
            is_kept = self._carry_out(conn)
            while is_kept and self._takes_next(conn):
                is_kept = self._carry_out(conn)
            return is_kept
        finally:
            with self._lock:
                self._given -= 1

    def _carry_out(self, conn: Any) -> Any:
        sock: CallerSocket = conn.sock
        is_alone = not sock.is_large and sock.ahead.startswith(self.limits.alone)
        has_lock = is_alone and self._alone.acquire(timeout=_ALONE_SECONDS)
        try:
            return super().handle(conn)
        finally:
            if has_lock:
                self._alone.release()
            sock.answered_at = time.monotonic()

    def _takes_next(self, conn: Any) -> bool:
        """Wait a moment for the next request; return whether this thread is to carry it out. Otherwise the main thread
        decides, as about any other. For the limits of tokens, the next request takes the place of this one."""
        sock: CallerSocket = conn.sock
        if not sock.asks_at_once or sock.is_large or not self._may_take_next():
            return False
        with self._lock:
            if self._waiters >= self.cfg.threads // 2:
                return False
            self._waiters += 1
        try:
            sock.ahead[:0] = conn.parser.unreader.take_buffered()
            sock.asks_at_once = sock.next_comes_within(_AT_ONCE_SECONDS)
        finally:
            with self._lock:
                self._waiters -= 1
        if not sock.asks_at_once or sock.has() is not Collected.ALL or not self._may_take_next():
            return False
        if self._has_token_limits(sock) and token_in(sock.ahead) != sock.token:
            return False
        sock.begin(may_wait=False)
        return True

    def _may_take_next(self) -> bool:
        return self.alive and self._given <= self.cfg.threads and not self._queued

    def _keepalive_after(self, conn: Any, keepalive: Any) -> bool:
        if conn.sock.is_given_away:
            return False
        try:
            return bool(super()._keepalive_after(conn, keepalive))
        except errors.ParseException:        # the rest of a body that the application has not read
            return False

    def handle_error(self, req: Any, client: CallerSocket, addr: Any, exc: Exception) -> None:  # noqa: ARG002  # gunicorn's own signature
        status = status_of(exc)
        if status == 500:
            self.log.error("a request failed outside of the application", exc_info=exc)
        else:
            self.log.warning("input from %s is not a request: %s", addr[0] if addr else "a socket", exc)
        if client.is_given_away:
            return
        with suppress(OSError):             # the client has gone
            util.write_nonblock(client, answer(status, type(self).body_of(status, text_of(status, exc))))


def _late(line: deque[Any], now: float) -> Any:
    """Return the first connection of a line if its time is over; else None."""
    return line[0] if line and line[0].timeout <= now else None


def given_away(environ: Mapping[str, Any]) -> socket.socket | None:
    """Return the connection of a request for whoever answers outside of gunicorn; None if it is not one of ours."""
    sock = environ.get("gunicorn.socket")
    return sock.give_away() if isinstance(sock, CallerSocket) else None


def worker_class(body_of: BodyOf, limits: CallerLimits) -> type[ThreadWorker]:
    """Return a class of gunicorn's workers for applications that answer in this envelope."""
    return type("EnvelopeWorker", (_EnvelopeWorker,), {"body_of": staticmethod(body_of), "limits": limits})
