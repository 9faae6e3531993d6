"""A server dies at each point of the way of a job in turn: each commit, each message, each reply, each effect.

The points are those of `tests/kit/servers/crash_points.py`. One toy job over two parties is run for each point; the
victim dies there, is brought back, and the job has to end well, or its submit is refused with the true reason; then the
books have to balance at both parties. Guest and host have a pair of servers each, side by side.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.engines.local.worker import write_atomically
from tests.chaos import books
from tests.chaos.load import NO_ANSWER, pair_job
from tests.chaos.parties import DATABASE_ERRORS, Party, own_database, running_parties, wait_until
from tests.kit.servers.crash_points import FILE, KINDS, SWITCH

GUEST, HOST = "9999", "10000"
SIDES = {"guest": GUEST, "host": HOST}
SETTLE_SECONDS = 120.0
ASK_AGAIN, ASK_AGAIN_SECONDS = 100, 0.1
PAST_THE_END = 2         # points in a row that a job did not reach: there are no more
DATA_NUM = 10
LIMITS = {
    "poll_interval": 1.0, "remote_request_timeout": 5.0, "submit_timeout": 10.0, "hold_seconds": 5.0,
    "ready_seconds": 15.0, "heartbeat_interval": 1.0, "party_silence": 60.0, "initiator_silence": 75.0,
    "drain_timeout": 10.0, "launch_timeout": 30.0, "stop_grace": 1.0, "retry_wait": 0.2,
}
"""As documented in conf/service_conf.yaml, shorter than usual so that what only time heals is healed soon. Not so what
would end the job: on a busy machine a server that comes back at once takes a while."""


@dataclass(frozen=True)
class Passage:
    """What came of the job during which a server was to die."""

    side: str
    point: str
    has_died: bool
    end: str                              # success, refused, or status and reason
    seconds: float
    problems: tuple[str, ...] = ()


@dataclass
class Outcome:
    """All points of a run."""

    seed: int
    step: int                             # every so manyth point; 1: all
    database: str
    passages: list[Passage] = field(default_factory=list)
    homes: str = ""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many points of each kind the first job passed, by side."""

    @property
    def problems(self) -> list[str]:
        return [f"{one.side} {one.point}: {problem}" for one in self.passages for problem in one.problems]

    @property
    def deaths(self) -> int:
        return sum(one.has_died for one in self.passages)

    def figures(self) -> str:
        """For people."""
        dead = [one for one in self.passages if one.has_died]
        chosen = "every point" if self.step == 1 else f"one point in {self.step} (seed {self.seed})"
        lines = [f"crash points on {self.database}, {chosen}: {len(dead)} deaths, {len(self.problems)} problems"]
        for side in SIDES:
            kinds = Counter(one.point.split(":")[0] for one in dead if one.side == side)
            found = Counter(one.end for one in dead if one.side == side)
            lines.append(f"  {side}: {_listed(kinds)}; the jobs: {_listed(found)}")
        slowest = max(dead, key=lambda one: one.seconds, default=None)
        if slowest:
            lines.append(f"  the slowest: {slowest.side} {slowest.point}, {slowest.seconds:.1f} s")
        lines += [f"  {problem}" for problem in self.problems]
        return "\n".join([*lines, *([f"  the homes are kept: {self.homes}"] if self.problems else [])])

    def document(self) -> dict[str, Any]:
        return {
            "seed": self.seed, "step": self.step, "database": self.database, "deaths": self.deaths,
            "counts": self.counts, "problems": self.problems, "passages": [asdict(one) for one in self.passages],
        }


def run(root: Path, seed: int, step: int, with_mariadb: bool, tell: Callable[[str], None]) -> Outcome:
    """One point in `step` of each kind, at least one, which the seed chooses. The homes stay if something was wrong."""
    outcome = Outcome(seed, step, "MariaDB" if with_mariadb else "SQLite")
    folder = root / f"crash-points-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    outcome.homes = str(folder)
    is_ending = threading.Event()
    os.environ[SWITCH] = "1"
    try:
        with (
            own_database(folder, with_mariadb) as (_, url), ThreadPoolExecutor(len(SIDES)) as pool,
            _set_on_error(is_ending),
        ):
            sides = [pool.submit(_side, folder / side, url, outcome, side, tell, is_ending) for side in SIDES]
            for one in sides:
                outcome.passages += one.result()
    finally:
        del os.environ[SWITCH]
    if not outcome.problems:
        shutil.rmtree(folder)
    return outcome


@contextmanager
def _set_on_error(event: threading.Event) -> Iterator[None]:
    try:
        yield
    except BaseException:
        event.set()      # the other threads are to end soon, and to take their servers down
        raise


def _side(
    root: Path, url: str, outcome: Outcome, side: str, tell: Callable[[str], None], is_ending: threading.Event
) -> list[Passage]:
    seed, step = outcome.seed, outcome.step
    database = f"{url}/{side}_{{party_id}}" if url else ""
    with running_parties(root, (GUEST, HOST), database, {"limits": LIMITS}) as parties:
        pair = _Pair(parties, side)
        first = pair.pass_point("")           # nobody dies: what is to be counted, and everything is warm
        outcome.counts[side] = counts = pair.counts()
        tell(f"{side}: a job passes {_listed(Counter(counts))}")
        found = [first]
        for point in _all_points(found) if step == 1 else _some_points(found, counts, seed, step):
            if is_ending.is_set():
                break
            found.append(pair.pass_point(point))
            tell(f"{side} {point}: {_described(found[-1])}")
        return found


def _all_points(found: list[Passage]) -> Iterator[str]:
    """Each kind from its first point on, until jobs end without reaching the next ones."""
    for kind in KINDS:
        number, missed = 1, 0
        while missed < PAST_THE_END:
            yield f"{kind}:{number}"
            missed = 0 if found[-1].has_died else missed + 1
            number += 1


def _some_points(found: list[Passage], counts: Mapping[str, int], seed: int, step: int) -> Iterator[str]:
    """The chosen points; and the first one of a kind if the jobs reached none of those that were chosen of it."""
    for kind, numbers in chosen_points(counts, seed, step).items():
        yield from (f"{kind}:{number}" for number in numbers)
        if not any(one.has_died for one in found if one.point.startswith(f"{kind}:")):
            yield f"{kind}:1"


def chosen_points(counts: Mapping[str, int], seed: int, step: int) -> dict[str, list[int]]:
    """Choose one point in `step` of each kind that a job passes, at least one, and each `step` after the one before.

    How many points of a kind a job passes depends on how the messages meet. So each kind is chosen from for itself:
    else another count of one kind would leave out another kind.
    """
    random_of = random.Random(seed)
    chosen = {}
    for kind in KINDS:
        if passed := counts.get(kind, 0):
            width = (max(1, passed // step) - 1) * step
            first = 1 + random_of.randrange(passed - width)
            chosen[kind] = list(range(first, first + width + 1, step))
    return chosen


class _Pair:
    """Two servers, of which one is to die again and again."""

    def __init__(self, parties: Mapping[str, Party], side: str) -> None:
        self._parties = parties
        self._side = side
        self._victim = parties[SIDES[side]]
        self._accepted: dict[str, str] = {}
        self._file = self._victim.home / "run" / FILE

    def counts(self) -> dict[str, int]:
        """What has been passed since the last job began."""
        return dict(self._state().get("counts", {}))

    def pass_point(self, point: str) -> Passage:
        """One job; the victim dies at this point, if the job reaches it, and comes back at once."""
        write_atomically(self._file, json.dumps({"at": point}))
        begun = time.monotonic()
        request_id = f"{self._side}-{point}-{len(self._accepted)}-{secrets.token_hex(2)}"
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self._submit, request_id)
            is_settled = wait_until(lambda: self._is_over(asked), SETTLE_SECONDS)
            problems = [] if is_settled else self._open()
            has_died = bool(self._state().get("fired"))
            write_atomically(self._file, json.dumps({"at": ""}) if point else json.dumps(self._state()))
            self._revive()
            job_id, end = asked.result()
        seconds = time.monotonic() - begun
        if job_id:
            end, more = self._end_of(job_id)
            problems += more
        return Passage(self._side, point, has_died, end, round(seconds, 2), tuple(problems))

    def _state(self) -> dict[str, Any]:
        found = json.loads(self._file.read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    def _revive(self) -> None:
        if not self._victim.is_up:
            self._victim.start()

    def _submit(self, request_id: str) -> tuple[str, str]:
        """The id of the job, or why there is none; who gets no answer asks again."""
        document = pair_job(GUEST, HOST, 1, DATA_NUM)
        for _ in range(ASK_AGAIN):
            try:
                answer = self._parties[GUEST].post("job/submit", document, {"Idempotency-Key": request_id})
            except NO_ANSWER:
                time.sleep(ASK_AGAIN_SECONDS)
                continue
            if answer.get("retcode") == 0:
                self._accepted[str(answer["jobId"])] = GUEST
                return str(answer["jobId"]), ""
            return "", f"refused: {answer.get('retmsg')}"
        return "", "not answered"

    def _is_over(self, asked: Future[tuple[str, str]]) -> bool:
        self._revive()
        return asked.done() and not self._open()

    def _open(self) -> list[str]:
        try:
            return books.unsettled(self._parties, self._accepted)
        except DATABASE_ERRORS as error:
            return [f"the books cannot be read: {error}"]

    def _end_of(self, job_id: str) -> tuple[str, list[str]]:
        """How the job ended, and what is wrong with that: nobody was away for long, so it has to end well."""
        guest = self._parties[GUEST]
        [row] = guest.rows("SELECT f_status, f_reason, f_message FROM t_job WHERE f_job_id = ?", job_id)
        if row["f_status"] != "success":
            return f"{row['f_status']}: {row['f_reason']}", [f"job {job_id}: {' '.join(map(str, row.values()))}"]
        sums = guest.rows("SELECT f_data FROM t_tracking_metric WHERE f_job_id = ?", job_id)
        wrong = [one["f_data"] for one in sums if str(2 * DATA_NUM) not in one["f_data"]]
        if len(sums) == 1 and not wrong:
            return "success", []
        return "success", [f"job {job_id}: its sum stands {len(sums)} times, wrong: {wrong}"]


def _described(passage: Passage) -> str:
    how = f"{passage.end} after {passage.seconds:.1f} s"
    return "; ".join([how if passage.has_died else f"not reached, {how}", *passage.problems])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or "none"
