"""One run: inputs from a seed to all listeners of one server, honest callers meanwhile, then what is left."""

from __future__ import annotations

import json
import secrets
import shutil
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.peers.tls import client_context
from tests.chaos.books import shown
from tests.chaos.parties import wait_until
from tests.fuzz.inputs import Input, Listener, Operation, Way, draw
from tests.fuzz.lines import ELSEWHERE, HERE, Answer, HeldLines, Line
from tests.fuzz.site import ATTACKER, HOLDER, UNKNOWN, Held, Site, running_site

SENDERS = {Listener.GATEWAY: 3, Listener.CLIENTS: 3, Listener.PLAIN: 2, Listener.PROXIED: 2}
WARM_UP, LONGEST_WARM_UP = 0.5, 20_000     # inputs after which memory and descriptors are measured first
MOST_MEMORY = 48 << 20           # bytes, by which a process may have grown since then
MOST_DESCRIPTORS = 16
NAMED = {
    501: "a method or a transfer coding that no server of ours has",
    503: "busy: try again later", 504: "the application has not answered in time",
    505: "not HTTP/1.1", 507: "the disk is nearly full",
}
"""The statuses from 500 on that the documents name with their causes. All others are violations."""
RUN_FILES = {
    "alive", "dialed.sock", "launch.json", "limits.json", "lineage", "measures",
    "nonces", "parties.sock", "party_disk.json", "peers.json",
    "secret", "server.json", "server.lock", "site_nonces", "start.lock", "streams", "streams.sock",
}  # fmt: skip
"""What a server without anything to do has in its folder of run files; anything else is left over."""
SETTLE_SECONDS = 150.0
PROBE_PAUSE_SECONDS = 0.5
TELL_SECONDS = 10.0
MOST_SLOW = 8


@dataclass
class Outcome:
    """What a run has shown."""

    seed: int
    first: int
    inputs: int
    sent: Counter[str] = field(default_factory=Counter)                # by listener and kind
    answers: dict[str, Counter[str]] = field(default_factory=dict)     # by listener: statuses; without: "ended", "held"
    retcodes: Counter[str] = field(default_factory=Counter)            # of answers with HTTP status 200
    slowest: list[tuple[float, int]] = field(default_factory=list)     # seconds and number of inputs
    seconds: float = 0.0
    honest: dict[str, list[float]] = field(default_factory=dict)       # seconds of each answer
    growth: dict[str, dict[str, int]] = field(default_factory=dict)    # by process: bytes, descriptors
    settled_seconds: float | None = None
    violations: list[str] = field(default_factory=list)
    homes: str = ""                                                    # where they are kept after a violation

    def document(self) -> dict[str, Any]:
        return dict(vars(self))

    def figures(self) -> str:
        """For people."""
        rate = sum(self.sent.values()) / self.seconds if self.seconds else 0.0
        lines = [
            f"seed {self.seed}, inputs {self.first} to {self.first + self.inputs - 1}: {self.seconds:.1f} s,"
            f" {rate:.0f} inputs a second, {len(self.violations)} violations",
            f"  sent: {_listed(self.sent)}",
        ]
        lines += [f"  {way}: {_listed(found)}" for way, found in sorted(self.answers.items())]
        lines.append(f"  retcodes with status 200: {_listed(self.retcodes)}")
        slow = ", ".join(f"{number} ({seconds:.2f} s)" for seconds, number in self.slowest)
        lines.append(f"  slowest inputs: {slow}")
        for name, times in sorted(self.honest.items()):
            median, slowest = sorted(times)[len(times) // 2], max(times)
            figures = f"median {median * 1000:.0f} ms, slowest {slowest:.2f} s"
            lines.append(f"  honest {name}: {len(times)} answers, {figures}")
        for name, more in sorted(self.growth.items()):
            lines.append(
                f"  {name}: {more['before'] / 2**20:.1f} MiB after the warm-up, {more['after'] / 2**20:.1f} MiB later,"
                f" {more['descriptors']:+d} descriptors"
            )
        lines.append("  nothing was left" + (f" after {self.settled_seconds:.1f} s" if self.settled_seconds is not None
                                             else ": it was NOT so"))  # fmt: skip
        if self.violations:
            lines += [shown(self.violations), f"  the home is kept: {self.homes}"]
        return "\n".join(lines)


def run(root: Path, seed: int, inputs: int, first: int, tell: Callable[[str], None]) -> Outcome:
    """Everything that was started is ended again; the home stays when something was wrong."""
    outcome = Outcome(seed, first, inputs)
    folder = root / f"fuzz-{seed}-{secrets.token_hex(3)}"
    outcome.homes = str(folder)
    with running_site(folder) as site:
        _attack(outcome, site, tell)
    if not outcome.violations:
        shutil.rmtree(folder)
        outcome.homes = ""
    return outcome


def _attack(outcome: Outcome, site: Site, tell: Callable[[str], None]) -> None:
    operations = site.operations()
    warm = min(int(outcome.inputs * WARM_UP), LONGEST_WARM_UP)
    begin, end = outcome.first, outcome.first + outcome.inputs
    started = time.monotonic()
    with _probes(outcome, site):
        _send(outcome, site, operations, range(begin, begin + warm), tell)
        before = site.held()
        _send(outcome, site, operations, range(begin + warm, end), tell)
    outcome.seconds = time.monotonic() - started
    _compare(outcome, site, before)
    settling = time.monotonic()
    if wait_until(lambda: not site.leftovers(), SETTLE_SECONDS):
        outcome.settled_seconds = time.monotonic() - settling
    else:
        outcome.violations += site.leftovers()
    # A file that the server writes anew stands there as a draft for a moment.
    if not wait_until(lambda: not site.run_folder() - RUN_FILES, SETTLE_SECONDS):
        outcome.violations.append(f"left in the folder of run files: {sorted(site.run_folder() - RUN_FILES)}")
    outcome.violations += [f"{count} times in the server's logs: {line}" for line, count in site.tracebacks().items()]


# ---------------------------------------------------------------------- sending


@dataclass
class _Sending:
    """The inputs that are still to be sent, shared by the threads that send them."""

    outcome: Outcome
    site: Site
    operations: Sequence[Operation]
    left: dict[Listener, Iterator[int]]        # for each listener, of which it takes its own
    tell: Callable[[str], None]
    last_line: float                           # when one was written last, on the monotonic clock
    broken: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, listener: Listener) -> None:
        lines, held = _lines(self.site, listener)
        try:
            while (one := self._next(listener)) is not None and not self.broken:
                begun = time.monotonic()
                if one.is_held:
                    self._done(held[one.way].send(one))
                else:
                    self._done([(one, lines[one.way].send(one))], time.monotonic() - begun)
        except BaseException as error:  # noqa: BLE001  # a defect of this tool must not look like a run without violations
            self.broken.append(error)
        finally:
            for line in lines.values():
                line.close()
            for one in held.values():
                self._done(one.let_go())

    def _next(self, listener: Listener) -> Input | None:
        while True:
            with self.lock:
                number = next(self.left[listener], None)
            if number is None:
                return None
            found = draw(self.outcome.seed, number, self.operations)
            if found.way.listener is listener:
                return found

    def _done(self, found: Sequence[tuple[Input, Answer]], seconds: float = 0.0) -> None:
        """`seconds`: until the answer; 0 if nobody waited for one."""
        with self.lock:
            slowest = self.outcome.slowest
            for one, answer in found:
                note(self.outcome, one, answer)
                slowest = [*slowest, (seconds, one.number)]
            self.outcome.slowest = sorted(slowest, reverse=True)[:MOST_SLOW]
            if time.monotonic() > self.last_line + TELL_SECONDS:
                self.last_line = time.monotonic()
                sent, wrong = sum(self.outcome.sent.values()), len(self.outcome.violations)
                self.tell(f"{sent} inputs sent, {wrong} violations")


def _send(
    outcome: Outcome, site: Site, operations: Sequence[Operation], numbers: range, tell: Callable[[str], None]
) -> None:  # fmt: skip
    """Send these inputs, by some threads to each listener."""
    left = {listener: iter(numbers) for listener in Listener}
    sending = _Sending(outcome, site, operations, left, tell, time.monotonic())
    senders = [
        threading.Thread(target=sending.work, args=(listener,))
        for listener, count in SENDERS.items() for _ in range(count)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if sending.broken:
        raise sending.broken[0]


def _lines(site: Site, listener: Listener) -> tuple[dict[Way, Line], dict[Way, HeldLines]]:
    """One sender's lines to a listener, and its connections that are held open, by way."""
    who = {Way.PEER: ATTACKER, Way.HOLDER: HOLDER, Way.STRANGER: UNKNOWN}
    port = {
        Listener.GATEWAY: site.parties_port, Listener.CLIENTS: site.port, Listener.PLAIN: site.plain_port,
        Listener.PROXIED: site.proxied_port,
    }[listener]  # fmt: skip
    sign = site.signed_by_party if listener is Listener.PROXIED else site.signed
    contexts: dict[Way, ssl.SSLContext | None] = {
        way: client_context(site.parties[who[way]].own, [site.own]) if way in who else None
        for way in Way if way.listener is listener
    }
    # A client on the same machine is trusted with the most, so it stays one.
    address = HERE if listener is Listener.CLIENTS else ELSEWHERE
    return (
        {way: Line(port, context, sign, address) for way, context in contexts.items()},
        {way: HeldLines(port, context, sign, address) for way, context in contexts.items()},
    )


def note(outcome: Outcome, one: Input, answer: Answer) -> None:
    """Count an answer, and keep what is wrong with it."""
    outcome.sent[f"{one.way.value}: {one.kind}"] += 1
    found = outcome.answers.setdefault(one.way.value, Counter())
    found.update(str(status) for status in answer.statuses)
    if not answer.statuses:
        found["held" if answer.is_open else "ended"] += 1
    if answer.is_late:
        outcome.violations.append(f"input {one.number} ({one.way.value}, {one.kind}): no answer, and no end either")
    if answer.statuses[-1:] == (200,) and (retcode := _retcode(answer.text)) is not None:
        outcome.retcodes[str(retcode)] += 1
    for status in answer.statuses:
        if status >= 500 and status not in NAMED:
            path = one.request.target[:200] if one.request else ""
            outcome.violations.append(
                f"input {one.number} ({one.way.value}, {one.kind}, {path}): status {status}: {answer.text[:300]!r}"
            )


def _retcode(text: bytes) -> int | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    code = found.get("retcode") if isinstance(found, dict) else None
    return code if isinstance(code, int) else None


# ---------------------------------------------------------------------- honest callers


@contextmanager
def _probes(outcome: Outcome, site: Site) -> Iterator[None]:
    """Honest parties and an honest client ask meanwhile. They have to be answered; how soon decides nothing."""
    is_ending = threading.Event()

    def probe(name: str, ask: Callable[[], bool]) -> None:
        times = outcome.honest.setdefault(name, [])
        while not is_ending.is_set():
            started = time.monotonic()
            try:
                problem = "" if ask() else "was refused"
            except (OSError, ValueError) as error:
                problem = f"was not answered: {error}"
            times.append(time.monotonic() - started)
            if problem:
                outcome.violations.append(f"the honest {name} {problem}")
            is_ending.wait(PROBE_PAUSE_SECONDS)

    found = [threading.Thread(target=probe, args=one) for one in
             (("peer", site.peer_answers), ("plain peer", site.plain_peer_answers),
              ("peer behind a proxy", site.proxied_peer_answers),
              ("client", site.client_answers))]  # fmt: skip
    for one in found:
        one.start()
    try:
        yield
    finally:
        is_ending.set()
        for one in found:
            one.join()


# ---------------------------------------------------------------------- processes


def _compare(outcome: Outcome, site: Site, before: Mapping[int, Held]) -> None:
    """Which processes are there, and how much more than after the warm-up they hold once all connections have ended."""
    def exceeds() -> list[str]:
        after = site.held()
        found = [f"process {pid} ({one.name}) has ended" for pid, one in before.items() if pid not in after]
        found += [f"process {pid} ({one.name}) is new" for pid, one in after.items() if pid not in before]
        for pid in before.keys() & after.keys():
            old, new = before[pid], after[pid]
            more = new.descriptors - old.descriptors
            outcome.growth[f"{new.name} {pid}"] = {"before": old.memory, "after": new.memory, "descriptors": more}
            if new.memory - old.memory > MOST_MEMORY:
                found.append(f"process {pid} ({new.name}): {old.memory} bytes before, {new.memory} bytes after")
            if more > MOST_DESCRIPTORS:
                found.append(f"process {pid} ({new.name}): {more} more open descriptors")
        return found

    if not wait_until(lambda: not exceeds(), SETTLE_SECONDS):
        outcome.violations += exceeds()


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(found.items(), key=lambda one: (-one[1], one[0])))
