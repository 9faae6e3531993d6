"""What the demos share: their folder, the servers of three organisations, and the commands that they run."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
_FLOW = Path(sys.executable).with_name("flow")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def short(path: Path) -> str:
    """Return the path for a command line: relative if the current folder is the checkout, else absolute."""
    is_below = Path.cwd() == CHECKOUT and path.is_relative_to(CHECKOUT)
    return shlex.quote(str(path.relative_to(CHECKOUT) if is_below else path))


def call(command: str, *arguments: str) -> str:
    """Run a command of bin/ and return its stdout; its stderr goes to ours. Raise SystemExit if it fails.

    If this process has to end, the command is asked to end, too, and may clean up."""
    program = [str(CHECKOUT / "bin" / command), *arguments]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        try:
            stdout, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if process.returncode:
        print(f"demo: bin/{command} {shlex.join(arguments)} ended with {process.returncode}\n{stdout}", file=sys.stderr)
        raise SystemExit(process.returncode)
    return stdout


# ------------------------------------------------------------------ the folder


@dataclass(frozen=True)
class Folder:
    """The files of a demo; nothing is written elsewhere."""

    root: Path

    @classmethod
    @contextmanager
    def opened(cls, root: Path) -> Iterator[Self]:
        """Make the folder anew: end the servers that an earlier demo has left in it. Raise SystemExit."""
        root = root.resolve()
        if root.exists() and not root.is_dir():
            raise SystemExit(f"demo: --dir: {root} is not a folder")
        if root.exists() and any(root.iterdir()) and not (root / "cluster").is_dir():
            raise SystemExit(f"demo: --dir: {root} has files that no demo has made; name a new folder")
        root.parent.mkdir(parents=True, exist_ok=True)
        with root.with_name(f".{root.name}.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit(f"demo: another demo runs in {root}; wait for it, or name a --dir") from None
            folder = cls(root)
            if (folder.cluster / "cluster.json").exists():
                call("cluster", "down", "--dir", str(folder.cluster))
            shutil.rmtree(root, ignore_errors=True)
            folder.cluster.mkdir(parents=True)
            yield folder

    @property
    def cluster(self) -> Path:
        return self.root / "cluster"

    def write(self, name: str, content: Mapping[str, Any]) -> Path:
        path = self.root / name
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return path


# ------------------------------------------------------------------ servers


@dataclass(frozen=True)
class Organisation:
    """A party of the demo's job, and its name for people."""

    role: str
    party_id: str
    name: str


@dataclass(frozen=True)
class Server:
    """The running server of an organisation."""

    of: Organisation
    url: str
    home: Path

    @property
    def seat(self) -> tuple[str, ...]:
        """Its role and party id, as options of `flow`."""
        return "-r", self.of.role, "-p", self.of.party_id

    def command(self, *arguments: str) -> list[str]:
        return [str(_FLOW), "--server", self.url, *arguments]

    def flow(self, *arguments: str, is_quiet: bool = False) -> dict[str, Any]:
        """Run a `flow` command here and return its answer; show its stderr unless `is_quiet`. Raise SystemExit."""
        [answer] = flow_at_once([(self, arguments)], is_quiet=is_quiet)
        return answer


Servers = Mapping[str, Server]


def flow_at_once(commands: Sequence[tuple[Server, Sequence[str]]], *, is_quiet: bool = True) -> list[dict[str, Any]]:
    """Run `flow` commands, all at once, and return their answers; show their stderr unless `is_quiet`. Raise SystemExit
    if one fails."""
    begun: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:
        try:
            for server, arguments in commands:
                begun.append(stack.enter_context(subprocess.Popen(
                    server.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if is_quiet else None,
                    stdin=subprocess.DEVNULL, text=True,
                )))  # fmt: skip
            return [_answer(one, arguments) for one, (_, arguments) in zip(begun, commands, strict=True)]
        except BaseException:
            for one in begun:
                one.kill()               # one that has ended is left alone
            raise


def _answer(command: subprocess.Popen[str], arguments: Sequence[str]) -> dict[str, Any]:
    stdout, _ = command.communicate()
    if command.returncode:
        raise SystemExit(f"flow {shlex.join(arguments)} ended with {command.returncode}\n{stdout}")
    answer = json.loads(stdout) if stdout.strip() else {}
    assert isinstance(answer, dict)
    return answer


@contextmanager
def running(
    folder: Folder, organisations: Sequence[Organisation], keep: bool, conf: Mapping[str, Any] | None = None
) -> Iterator[Servers]:
    """Start a server for each, and return them by name. End them all afterwards, unless they are kept.

    `conf` is laid over the configuration of each server."""
    print("starting three party servers ...")
    for one in organisations if conf else ():
        path = folder.cluster / one.party_id / "conf" / "local.service_conf.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(conf), encoding="utf-8")
    try:
        parties = [part for one in organisations for part in ("--party", one.party_id)]
        document = json.loads(call("cluster", "up", "--dir", str(folder.cluster), *parties))
        found = {party["party_id"]: party for party in document["parties"]}
        for one in organisations:
            party = found[one.party_id]
            print(
                f"  {one.role:<7} {one.party_id:>5}  {one.name:<9} {party['url']}"
                f"  for other parties: {party['gateway']}"
            )
        print("  each party has keys of its own, and the other parties' key lists: their servers speak mutual TLS 1.3")
        yield {
            one.name: Server(one, found[one.party_id]["url"], Path(found[one.party_id]["home"]))
            for one in organisations
        }
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            if (folder.cluster / "cluster.json").exists():
                call("cluster", "down", "--dir", str(folder.cluster))


def how_to_go_on(folder: Folder, server: Server, job_id: str, *more: str) -> None:
    """Say how to use and stop the servers that are kept."""
    print("\nthe servers are still running; use them and stop them with")
    print(f"  . {short(CHECKOUT / '.venv/bin/activate')} && export FATE_FLOW_SERVER={server.url}")
    for arguments in (f"job query -j {job_id}", f"job explain -j {job_id}", *more):
        print(f"  flow {arguments}")
    for verb in ("status", "down"):
        print(f"  {short(CHECKOUT / 'bin/cluster')} {verb} --dir {short(folder.cluster)}")
