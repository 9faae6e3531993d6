"""The server's side of an engine that places runners on other machines.

The folder of a worker is the first word about it, the listing of the cluster the second. What the listings of this
process have shown is in memory; a new process begins again, and decides a little later.

A thread of each process submits what that process places. Where workers are observed, it also lists, cancels what
nobody wants, and writes the end of what is gone into its folder: so `observe` reads files and waits for nobody.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from fate_flow.core.model.resources import Need
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local.worker import (
    ARRIVED,
    CLAIMED,
    EXIT,
    LAUNCH,
    RESULT,
    SECOND,
    Cause,
    Exit,
    Observation,
    Started,
    WorkerSpec,
    never_start,
    read_json,
    write_atomically,
)
from fate_flow.engines.placed.cluster import (
    Batch,
    Cluster,
    Gang,
    Listed,
    Placement,
    Stage,
    Submission,
    Taken,
    TakesSeveral,
    Unreadable,
    Waiting,
)
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.folder import (
    PLACED,
    Pending,
    Placed,
    intend,
    is_below,
    note,
    request_stop,
    seconds_of,
    why_stopped,
)
from fate_flow.engines.placed.orders import TOGETHER_SECONDS, Order, Orders
from fate_flow.engines.placed.reserved import may_begin
from fate_flow.engines.placed.seen import Patience, Seen, Step, furthest, step_of
from fate_flow.engines.placed.submitting import Processes, ProcessesHere, Submitted, Wait

log = logging.getLogger(__name__)

_MOST_CANCELLED = 20            # a listing; more are left to the next one
_IDLE_SECONDS = 60.0            # between two listings while no worker is watched
_LATE_SECONDS = 15.0            # after the grace of a stop, before the job itself is cancelled


@dataclass
class _Watched:
    """What this process knows of a worker without an end."""

    seen: Seen | None = None             # None: this process has not listed since it watches
    patience: Patience | None = None
    signalled: bool = False
    cancel_at: float | None = None
    wait: Wait = field(default_factory=Wait)      # for the submission by another process


class PlacedEngine:
    """Workers on the machines of a cluster."""

    def __init__(
        self, cluster: Cluster, conduct: Conduct, ended: Callable[[Path], None],
        clock: Callable[[], float] = time.monotonic, has_thread: bool = True, processes: Processes | None = None,
    ) -> None:
        """`ended`: called when the end of a worker is seen, by the thread of this engine. Without a thread, the caller
        calls `work`."""
        self._cluster = cluster
        self._conduct = conduct
        self._ended = ended
        self._clock = clock
        self._processes = processes or ProcessesHere()
        self._lock = threading.Lock()
        self._orders = Orders(isinstance(cluster, TakesSeveral), clock)
        self._watched: dict[Path, _Watched] = {}
        self._signals: list[str] = []
        self._lists = False                      # this process is the one that observes workers
        self._unwanted: dict[str, int] = {}      # by name: in how many listings nobody wanted it
        self._unreadable = ""                    # why the last listing failed; empty: it did not
        self._unsigned: dict[Path, Submitted] = {}   # answers that could not be written yet
        self._bad: set[Path] = set()             # folders that could not be read or written, which the log has said
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._begin = self._begin_thread if has_thread else lambda: None

    def launch(
        self, spec: WorkerSpec, need: Need, partner: str = "", *, gathers: bool = False, gang: Gang | None = None,
        batch: Batch | None = None,
    ) -> None:  # fmt: skip
        """Submit the runner of a worker once, however often it is launched.

        What the need says of pending counts if it is shorter than what this party says. `gathers`: the worker begins
        when all others of its gang have, and waits for them as long as it may be pending."""
        folder = spec.folder
        if (folder / CLAIMED).exists() or (folder / PLACED).exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if gathers and self._conduct.gathers:
            longest = self._longest(need.longest_pending_seconds)
            spec, need = replace(spec, gather_seconds=longest), need.with_time_for(longest)
        write_atomically(folder / LAUNCH, spec.to_json(), mode=0o600, is_durable=False)
        name = f"{self._conduct.prefix}{spec.worker_id}"
        argv = tuple(self._conduct.runner(folder))
        if not intend(folder, name, need.longest_pending_seconds, self._processes.own()):
            return
        # From here on, as long as this process lives, another one waits for what it says of the submission.
        self._orders.add(Placement(
            name, folder, argv, need, spec.grace_seconds, partner, self._conduct.env, gang, batch,
            self._conduct.secrets(spec.worker_id),
        ))  # fmt: skip
        Pending("submitted", f"is submitted to {self._cluster.title}").write(folder)
        self._run()

    def observe(self, folder: Path) -> Observation:
        """Return the state of the worker of a folder."""
        end = Exit.read(folder)
        started = Started.read(folder)
        process = started.worker if started else None
        if end is not None:
            with self._lock:
                self._watched.pop(folder, None)
            return Observation("exited", process, self._explained(folder, end), read_json(folder / RESULT))
        with self._lock:
            self._watched.setdefault(folder, _Watched())
            self._lists = True
        self._run()
        if started:
            return Observation("running", process)
        pending = Pending.read(folder) if (folder / PLACED).exists() else None
        return Observation(
            "created", waits=pending.shown if pending else "", is_placed=pending is not None,
            has_arrived=(folder / ARRIVED).exists(),
        )  # fmt: skip

    def stop(self, folder: Path, grace_seconds: float) -> bool:
        """Ask a worker to end; one that has not started never starts then. Repeat the call until it has ended.

        Returns True if this call has decided that the worker never starts; then no runner reports its end."""
        if (folder / EXIT).exists():
            return False
        folder.mkdir(parents=True, exist_ok=True)
        request_stop(folder, grace_seconds)
        if never_start(folder, Exit(None, None, "stopped")):
            self._wake.set()
            return True
        placed = Placed.read(folder)
        if placed is not None:
            with self._lock:
                one = self._watched.setdefault(folder, _Watched())
                self._lists = True
                due = self._clock() + grace_seconds + _LATE_SECONDS
                one.cancel_at = due if one.cancel_at is None else min(one.cancel_at, due)
                if not one.signalled:
                    one.signalled = True
                    self._signals.append(placed.name)
            self._run()
        return False

    def is_living(self, folder: Path) -> bool:
        """Return whether a worker was placed here and has no end yet."""
        return (folder / PLACED).exists() and not (folder / EXIT).exists()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        """Let the thread work, and begin it with the first need: a process may fork before."""
        self._begin()
        if self._orders or self._signals:
            self._wake.set()

    def _begin_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="placing", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        polled: float | None = None
        while True:
            polls = polled is None or time.monotonic() >= polled + self._pause()
            try:
                self.work(polls=polls)
            except Exception:    # it must live on: without it no worker starts or ends
                log.exception("placing on %s", self._cluster.title)
            if polls:
                polled = time.monotonic()
            self._wake.wait(min(self._conduct.poll_seconds, TOGETHER_SECONDS if self._orders else math.inf))
            self._wake.clear()

    def _pause(self) -> float:
        """Return the seconds between two listings. A job whose submission was in doubt may appear when no worker is
        left, and nobody wants it then: so it goes on listing, rarely."""
        is_idle = not (self._watched or self._unwanted or self._orders)
        return max(_IDLE_SECONDS, self._conduct.poll_seconds) if is_idle else self._conduct.poll_seconds * 0.99

    def work(self, *, polls: bool) -> None:
        """Do what is due: submit, signal, and look at the listing if it `polls`. The thread calls it."""
        self._submit_all(polls)
        with self._lock:
            names, self._signals = self._signals, []
        for name in names:
            self._cluster.signal(name)
        if polls and self._lists:
            self._look()

    def _submit_all(self, polls: bool) -> None:
        for folder, answer in list(self._unsigned.items()):
            self._sign(folder, answer)
        for orders in self._orders.due(polls=polls):
            if ready := [one for one in orders if self._is_ready(one)]:
                self._submit(ready)

    def _is_ready(self, order: Order) -> bool:
        """Return whether a worker is to be submitted now; drop it if it was stopped meanwhile."""
        is_claimed = None                 # its folder cannot be read
        with self._isolated(order.folder):
            is_claimed = (order.folder / CLAIMED).exists()
        if is_claimed:
            self._orders.drop([order])
        return is_claimed is False

    def _submit(self, orders: Sequence[Order]) -> None:
        answer = self._answer_to([one.placement for one in orders])
        if answer.taken is Taken.TOO_MANY and len(orders) > 1:
            half = len(orders) // 2
            self._submit(orders[:half])
            self._submit(orders[half:])
            return
        is_over = answer.taken is not Taken.NOT_REACHED
        for order in orders:
            order.tries, order.waits = order.tries + 1, not is_over
        if is_over:
            self._orders.drop(orders)
        for order in orders:
            self._sign(order.folder, Submitted(answer.taken.value, order.tries))
            with self._isolated(order.folder):
                self._answered(order, answer)

    def _answer_to(self, placements: Sequence[Placement]) -> Submission:
        cluster, title = self._cluster, self._cluster.title
        try:
            if len(placements) > 1 and isinstance(cluster, TakesSeveral):
                return cluster.submit_together(placements)
            return cluster.submit(placements[0])
        except Exception:      # the other orders must go on; whether these arrived, a listing tells
            log.exception("%s: submitting to %s", placements[0].folder, title)
            return Submission(Taken.IN_DOUBT, f"submitting to {title} has failed")

    def _sign(self, folder: Path, answer: Submitted) -> None:
        """Tell the process that lists what the cluster has answered; what cannot be written now is written later."""
        self._unsigned[folder] = answer
        with self._isolated(folder):
            with suppress(FileNotFoundError):         # the folder was removed
                answer.write(folder)
            del self._unsigned[folder]

    def _answered(self, order: Order, answer: Submission) -> None:
        folder, title = order.folder, self._cluster.title
        if answer.taken in (Taken.REFUSED, Taken.TOO_MANY):
            self._never_start(folder, "not_started", f"{title} refused it: {answer.text}")
        elif answer.taken is Taken.NOT_REACHED:
            text = f"waits for {title}, which does not answer: {answer.text}"
            note(folder, Waiting("unreachable", text, "if this lasts, look whether it runs and is reached"), 0.0)
        elif answer.taken is Taken.IN_DOUBT:
            # Submitted again, it might run twice. The next listings tell.
            log.warning("%s: whether %s has it is not known yet: %s", folder, title, answer.text)
            text = f"may be in {title}, which has not answered: {answer.text}"
            note(folder, Waiting("doubt", text, "the next listings tell, without a step of anybody"), 0.0)

    @contextmanager
    def _isolated(self, folder: Path) -> Iterator[None]:
        """Go on with the other workers if the folder of this one fails: one line for as long as it does."""
        try:
            yield
        except Exception as error:
            if folder not in self._bad:
                why = os_error_text(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
                is_ours = not isinstance(error, OSError)
                log.warning("%s: the worker cannot be followed: %s", folder, why, exc_info=is_ours)
            self._bad.add(folder)

    def _look(self) -> None:
        begun = self._clock()
        with self._lock:
            # Who is placed after the listing has begun cannot be missed in it.
            folders = [*self._watched]
        submitting = self._orders.folders()
        try:
            listed = self._cluster.listing()
        except Unreadable as error:
            if str(error) != self._unreadable:       # one line for as long as it is away
                log.warning("%s cannot be listed: %s", self._cluster.title, error)
            self._unreadable = str(error)
            for folder in folders:
                with self._isolated(folder):
                    self._keep(folder, self._seen(folder).without_listing())
            return
        if self._unreadable:
            log.info("%s can be listed again", self._cluster.title)
        self._unreadable = ""
        by_name = furthest(listed)
        for folder in folders:
            with self._isolated(folder):
                self._follow(folder, by_name, begun, is_queued=folder in submitting)
                self._bad.discard(folder)
        self._cancel_unwanted(listed)

    def _follow(self, folder: Path, by_name: Mapping[str, Listed], at: float, *, is_queued: bool) -> None:
        """Take in what a listing that began at this time shows of one worker, and decide. `is_queued`: this process
        has not submitted it yet."""
        placed = self._placed(folder)
        if Exit.read(folder) is not None or not folder.exists():
            with self._lock:
                self._watched.pop(folder, None)
            self._bad.discard(folder)
            self._ended(folder)
        elif placed is not None and not is_queued:
            listed = by_name.get(placed.name)
            if listed is not None or not self._may_be_submitted(folder, placed, at):
                self._keep(folder, self._seen(folder).with_listing(listed, at))
                self._decide(folder, placed)

    def _placed(self, folder: Path) -> Placed | None:
        """Return the intent of this worker; one that cannot be understood goes by the name that it must have."""
        found = Placed.read(folder)
        if found is not None or not (folder / PLACED).exists():
            return found
        return Placed(f"{self._conduct.prefix}{folder.name}")

    def _may_be_submitted(self, folder: Path, placed: Placed, at: float) -> bool:
        """Return whether a worker that this process does not submit, and the listing of this time does not show, may
        still be submitted by another process."""
        if placed.submitter == self._processes.own() or (folder / CLAIMED).exists():
            return False
        with self._lock:
            one = self._watched.get(folder)
        return one is not None and one.wait.may_come(Submitted.read(folder), placed.submitter, self._processes, at)

    def _seen(self, folder: Path) -> Seen:
        with self._lock:
            one = self._watched.get(folder)
        if one is not None and one.seen is not None:
            return one.seen
        earlier = Pending.read(folder)               # what another process of this server has counted
        return Seen(pending_seconds=earlier.seconds if earlier else 0.0)

    def _keep(self, folder: Path, seen: Seen) -> None:
        with self._lock:
            if folder in self._watched:
                self._watched[folder].seen = seen
                if not seen.is_read:
                    self._watched[folder].wait.stand()

    def _decide(self, folder: Path, placed: Placed) -> None:
        with self._lock:
            one = self._watched.get(folder)
        if one is None or one.seen is None:
            return
        is_begun = (folder / CLAIMED).exists()
        # The end of a second job says nothing of the one that has the claim.
        seen = replace(one.seen, may_compute=True) if (folder / SECOND).exists() else one.seen
        step = step_of(seen, is_begun=is_begun, now=self._clock(), patience=self._patience(one, folder, placed))
        listed = one.seen.listed
        if step is Step.GIVE_UP:
            seconds, why = one.seen.pending_seconds, listed.waiting.text if listed and listed.waiting else "waits"
            self._never_start(folder, "not_placed", f"{why}; given up after {seconds:.0f} s")
        elif step is Step.END:
            request_stop(folder, 0, "node_lost" if listed is not None and listed.cause == "node_lost" else "lost")
        elif step is Step.LOST:
            self._lose(folder, listed, is_begun=is_begun)
        elif not is_begun and listed is not None and listed.waiting is not None:
            note(folder, listed.waiting, one.seen.pending_seconds)
            if listed.is_reserved is not None and may_begin(folder, is_reserved=listed.is_reserved):
                self._cluster.admit(placed.name)
        if one.cancel_at is not None and self._clock() >= one.cancel_at:
            self._cluster.cancel(placed.name)

    def _patience(self, one: _Watched, folder: Path, placed: Placed) -> Patience:
        if one.patience is None:
            order = read_json(folder / LAUNCH) or {}
            silence = seconds_of(order.get("lease_seconds")) + seconds_of(order.get("grace_seconds"))
            one.patience = Patience(self._longest(placed.longest_pending), self._conduct.settle, silence)
        return one.patience

    def _longest(self, asked: float) -> float:
        """Return for how long a worker waits whose job lets it wait for so long; 0: for ever."""
        most = self._conduct.longest_pending
        return min(asked, most) if asked and most else asked or most

    def _lose(self, folder: Path, listed: Listed | None, *, is_begun: bool) -> None:
        """Write the end of a worker that its runner cannot write any more."""
        cause, text = self._cluster.cause_in(folder)
        title = self._cluster.title
        if listed is not None and listed.cause:
            cause, text = listed.cause, text or f"{title} says {listed.word}"
        elif not cause:
            said = f"{title} says {listed.word}" if listed is not None else f"{title} does not list it any more"
            what = "its runner has left no end" if is_begun else "no process started"
            hint = "" if is_begun else f"; {self._conduct.hint}"
            cause, text = "lost" if is_begun or listed is not None else "not_started", f"{what}, and {said}{hint}"
        if not self._never_start(folder, cause, text):
            self._end(folder, cause, text)

    def _never_start(self, folder: Path, cause: str, message: str) -> bool:
        """End a worker that has not begun; False if its runner was faster. Its job, if it comes, finds the claim."""
        with suppress(FileNotFoundError):         # the folder was removed
            if not never_start(folder, Exit(None, None, _cause(cause), message)):
                return False
            self._ended(folder)
        return True

    def _end(self, folder: Path, cause: str, message: str) -> None:
        if Exit.read(folder) is None:
            with suppress(FileNotFoundError):
                write_atomically(folder / EXIT, Exit(None, None, _cause(cause), message).to_json())
        self._ended(folder)

    def _cancel_unwanted(self, listed: Collection[Listed]) -> None:
        """Cancel jobs of this home that nobody wants: whose worker has ended, or whose folder is gone."""
        unwanted = {
            one.name for one in listed
            if one.stage in (Stage.PENDING, Stage.ALIVE) and self._is_ours(one) and not self._is_wanted(one)
        }  # fmt: skip
        # A runner writes the end of its worker a moment before its job ends.
        self._unwanted = {name: self._unwanted.get(name, 0) + 1 for name in unwanted}
        for name in [name for name, often in self._unwanted.items() if often > 1][:_MOST_CANCELLED]:
            log.warning("%s: cancels %s, whose worker has ended", self._cluster.title, name)
            self._cluster.cancel(name)

    def _is_ours(self, one: Listed) -> bool:
        worker_id = one.name.removeprefix(self._conduct.prefix)
        is_named = one.name.startswith(self._conduct.prefix) and Path(one.folder).name == worker_id
        return is_named and is_below(one.folder, self._conduct.jobs_dir)

    def _is_wanted(self, one: Listed) -> bool:
        folder = Path(one.folder)
        try:
            return (folder / PLACED).exists() and not (folder / EXIT).exists()
        except OSError:             # a folder that cannot be read now says nothing
            return True

    def _explained(self, folder: Path, end: Exit) -> Exit:
        """Return the end with the cluster's word, if neither the worker nor this server has caused it."""
        asked = why_stopped(folder)
        if end.cause not in ("exited", "stopped") or end.exit_code == 0 or asked == "":
            return end
        cause, text = self._cluster.cause_in(folder)
        if not cause and asked:
            title = self._cluster.title
            cause, text = asked, f"{title}: its time is over" if asked == "timeout" else f"{title} had lost it"
        return replace(end, cause=_cause(cause), message=text) if cause else end


def _cause(text: str) -> Cause:
    found: dict[str, Cause] = {
        "timeout": "timeout", "out_of_memory": "out_of_memory", "preempted": "preempted", "node_lost": "node_lost",
        "not_placed": "not_placed", "not_started": "not_started", "stopped": "stopped",
    }
    return found.get(text, "lost")
