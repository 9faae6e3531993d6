"""The process on the other host: it fetches the folder of a worker, has it run there, and sends back what it makes.

The runner is that of the local engine, in a process of its own, and ends the worker by the same rules as beside the
server: this process rewrites the lease file only while the server answers, and writes `stop.json` when the server says
so. So if the server is lost, or this process is killed, the worker ends by the clock of its own host.

`python -m fate_flow.engines.staged.agent fetch` only fetches, `... run` does everything. The variables of `places.py`
say which worker, and how to reach the server.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar

from fate_flow.core.model.grammar import shown
from fate_flow.engines.local import proc
from fate_flow.engines.local.worker import (
    ARRIVED,
    EXIT,
    GO,
    Cause,
    ProcessId,
    Started,
    Stop,
    read_json,
    release,
    write_atomically,
)
from fate_flow.engines.staged.documents import ALIVE
from fate_flow.engines.staged.fetch import Damaged, Fetched, fetch
from fate_flow.engines.staged.loopback import Loopback
from fate_flow.engines.staged.pinned import PinnedClient, ServerAt, WrongServer
from fate_flow.engines.staged.places import ADDRESS, CLAIM, INDEX, PIN, ROOT, TOKEN, TOKENS, WORKER, WORKERS
from fate_flow.engines.staged.sending import Growing, send_outputs
from fate_flow.engines.staged.server import Over, Refused, Server

log = logging.getLogger("fate_flow.staged")

_RUN = """
import pathlib, sys
from fate_flow.engines.local.runner import run_worker
run_worker(pathlib.Path(sys.argv[1]))
"""
_LOOK_SECONDS = 0.1              # between two looks at the folder
_MOST_BEAT_SECONDS = 5.0
_GANG_BEAT_SECONDS = 1.0         # while the runner waits for the others of its gang
_END_SECONDS = 60.0              # for a runner that was told to end at once
OK, _FAILED, _BAD_ORDER, NOT_MINE = 0, 1, 2, 3


@dataclass
class Agent:
    """Runs one worker of another host's server here."""

    SIGNALS: ClassVar[tuple[signal.Signals, ...]] = (signal.SIGTERM,)      # by which this process is told to end

    server: Server
    asked: bool = False                        # whether the server has asked for the end of the worker
    _ends: bool = False                        # whether this process was told to end

    def run(self) -> int:
        """Run the worker to its end; return the exit code of this process."""
        try:
            fetched = fetch(self.server)
        except (Refused, Damaged, OSError) as error:
            self._never_starts(str(error))
            raise
        self.server.ask("claim", {})
        folder = self.server.root / fetched.folder
        self._renew()
        runner = subprocess.Popen([sys.executable, "-P", "-c", _RUN, str(folder)], cwd="/")
        growing = Growing(self.server, fetched)
        try:
            self._follow(folder, fetched, runner, growing)
        except BaseException:
            self._end_at_once(folder, runner)
            raise
        end = read_json(folder / EXIT)
        if end is None:
            log.error("the runner has ended without a word: the worker is lost")
            self._end_survivors(folder)
            return _FAILED
        try:
            self.leave_more(folder)
            growing.send(is_last=True)
            files = send_outputs(self.server, fetched)
            said = {"exit": self.explained(end), "files": [one.as_json() for one in files]}
            self.server.ask("end", {**self.server.there, **said})
        except Refused as error:          # without this, it would count as lost, and nobody would know why
            self._ends_without_outputs("lost", f"the worker has ended, and what it has made was not taken: {error}")
            raise
        return OK

    def leave_more(self, folder: Path) -> None:
        """Put into the folder of a worker that has ended what else the server gets."""

    def explained(self, end: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the end of the worker with what this host knows of its cause."""
        return end

    def _never_starts(self, why: str) -> None:
        """Tell the server, if it answers, that this worker cannot be run here."""
        with suppress(Over, Refused, WrongServer, OSError):
            self.server.ask("claim", {}, seconds=_END_SECONDS)
        self._ends_without_outputs("not_started", why)

    def _ends_without_outputs(self, cause: Cause, why: str) -> None:
        end = {"exit_code": None, "signal": None, "cause": cause, "message": " ".join(why.split())[:500]}
        with suppress(Over, Refused, WrongServer, OSError):
            self.server.ask("end", {**self.server.there, "exit": end, "files": []}, seconds=_END_SECONDS)

    def tell_to_end(self, _number: int, _frame: object) -> None:
        """The engine ends this process: the worker gets the grace of its order."""
        self._ends = True

    # ------------------------------------------------------------------ while the worker runs

    def _follow(self, folder: Path, fetched: Fetched, runner: subprocess.Popen[bytes], growing: Growing) -> None:
        beat = min(_MOST_BEAT_SECONDS, fetched.lease_seconds / 6) if fetched.lease_seconds else _MOST_BEAT_SECONDS
        is_started, next_beat, has_arrived, has_heard = False, 0.0, False, False
        while not (folder / EXIT).exists() and (runner.poll() is None or self._is_alive(folder)):
            if not is_started and (started := Started.read(folder)) is not None:
                is_started = self._try("started", {"processes": read_json(folder / "runner.json") or {}})
                if is_started:
                    log.info("worker %s runs as process %s", self.server.worker_id, started.worker.pid)
            if self._ends and not has_heard:
                has_heard, next_beat = True, 0.0      # the server may have caused it, and says a shorter grace
                self._request_stop(folder, self._grace_of(folder))
            waits = (folder / ARRIVED).exists() and not (folder / GO).exists()
            if time.monotonic() >= next_beat or (waits and not has_arrived):
                has_arrived = waits
                self._beat(folder, has_arrived=waits)
                next_beat = time.monotonic() + (min(beat, _GANG_BEAT_SECONDS) if waits else beat)
                growing.send()
            time.sleep(_LOOK_SECONDS)
        if not is_started and Started.read(folder) is not None:
            self._try("started", {"processes": read_json(folder / "runner.json") or {}})

    def _beat(self, folder: Path, *, has_arrived: bool) -> None:
        """Give a sign of life. Without an answer the lease is not renewed.

        `has_arrived`: the runner waits for the others of its gang."""
        said = {"arrived": True} if has_arrived else {}
        try:
            answer = self.server.once("alive", json.dumps(said).encode()).json()
        except (OSError, HTTPException) as error:
            log.warning("no answer of the server: %s", error)
            return
        self._renew()
        stop = answer.get("stop")
        if isinstance(stop, Mapping):
            self.asked = True
            self._request_stop(folder, float(stop["grace_seconds"]))
        if has_arrived and answer.get("go") is True:
            release(folder)

    def _try(self, what: str, body: Mapping[str, object]) -> bool:
        try:
            self.server.ask(what, body, seconds=0.0)
        except TimeoutError:
            return False
        return True

    def _renew(self) -> None:
        (self.server.root / ALIVE).write_text(f"{time.monotonic()}")

    def _request_stop(self, folder: Path, grace_seconds: float) -> None:
        earlier = Stop.read(folder)
        if earlier is None or earlier.grace_seconds > grace_seconds:
            write_atomically(folder / "stop.json", Stop(grace_seconds, time.monotonic()).to_json())
            if (started := Started.read(folder)) is not None:
                started.runner.send(signal.SIGTERM)

    def _grace_of(self, folder: Path) -> float:
        return float((read_json(folder / "launch.json") or {}).get("grace_seconds", 0.0))

    def _is_alive(self, folder: Path) -> bool:
        started = Started.read(folder)
        return started is not None and started.runner.is_alive()

    # ------------------------------------------------------------------ a worker that is over

    def _end_at_once(self, folder: Path, runner: subprocess.Popen[bytes]) -> None:
        self._request_stop(folder, 0.0)
        with suppress(subprocess.TimeoutExpired):
            runner.wait(_END_SECONDS)
        self._end_survivors(folder)

    def _end_survivors(self, folder: Path) -> None:
        started = Started.read(folder)
        for member in started.survivors() if started is not None else ():
            ProcessId.seen(member).send(signal.SIGKILL)


def main(argv: Sequence[str], made: Callable[[Server], Agent] = Agent) -> int:
    """Run `fetch` or `run`; return the exit code: 0 if the worker's end has reached the server."""
    logging.basicConfig(level=logging.INFO, format="[%(levelname)s] [%(asctime)s] %(message)s")
    proc.hide_memory()      # the user's program is a process of the same user, and has to leave the token alone
    if list(argv) not in (["fetch"], ["run"]):
        log.error("usage: python -m fate_flow.engines.staged.agent fetch|run")
        return _BAD_ORDER
    has_claim = CLAIM in os.environ
    try:
        worker_id, token = _worker_and_token()
        at = ServerAt.of(os.environ[ADDRESS], os.environ[PIN])
        client, root = PinnedClient(at, token), Path(os.environ[ROOT]) / worker_id
    except KeyError as error:
        log.error("%s is not set: the engine that starts this process sets it", error.args[0])
        return _BAD_ORDER
    except ValueError as error:
        log.error("%s", error)
        return _BAD_ORDER
    loopback = Loopback(at, log.error)
    return _served(argv[0], Server(client, worker_id, root, loopback.port), loopback, made, has_claim=has_claim)


def _worker_and_token() -> tuple[str, str]:
    """Return the worker of this process and its token; afterwards no token is in the environment.

    Raises KeyError, ValueError."""
    if WORKERS not in os.environ:
        return os.environ[WORKER], proc.take_variable(CLAIM if CLAIM in os.environ else TOKEN)
    tokens = {name: proc.take_variable(name) for name in [*os.environ] if name.startswith(TOKENS)}
    number, workers = os.environ[INDEX], os.environ[WORKERS].split()
    if not number.isdecimal() or int(number) >= len(workers):
        raise ValueError(f"{INDEX}: {shown(number)} is not the number of one of {len(workers)} workers")
    return workers[int(number)], tokens[f"{TOKENS}{int(number)}"]


def _served(
    what: str, server: Server, loopback: Loopback, made: Callable[[Server], Agent], *, has_claim: bool
) -> int:
    agent, root = made(server), server.root
    try:
        if has_claim:
            server.redeem()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if what == "fetch":
            fetch(server)
            return OK
        for number in agent.SIGNALS:
            signal.signal(number, agent.tell_to_end)
        loopback.begin()
        code = agent.run()
    except Over as error:
        log.warning("%s", error)
        return NOT_MINE
    except (WrongServer, Refused, Damaged, OSError) as error:      # TimeoutError is an OSError
        log.error("%s", error)
        return _FAILED
    finally:
        loopback.close()
        server.client.close()
    shutil.rmtree(root, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
