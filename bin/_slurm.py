"""A temporary Slurm cluster for the tests, which any user can run without changes to the system.

If slurmctld, slurmd and munged are installed, they are used. Otherwise Debian's packages are unpacked under
`.cache/slurm`. There is no slurmdbd. All nodes are on this machine: a slurmd each, with a port of its own on loopback.

DIR has `slurm.conf`, `munge.key`, `munge.sock`, the logs and states of the daemons, `slurm.json` with ports, pids and
start times, and `bin` with the commands of a user (`sbatch`, `squeue`, ...), which find this cluster and no other.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _daemons import (
    HOST,
    POLL_SECONDS,
    Failed,
    end,
    free_ports,
    identity,
    is_alive,
    last_lines,
    read_state,
    write_state,
)
from _debian import NOT_TO_BE_HAD, NotToBeHad, environment, fetched, library_path, locked

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge")
DAEMONS = ("slurmctld", "slurmd", "slurmstepd", "munged")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct", "srun")
STATE = "slurm.json"
MUNGED, CONTROLLER = "munged", "slurmctld"
START_SECONDS = 60.0
LONGEST_SOCKET_PATH = 107
CORES, MEMORY_MB = 4, 4000      # of each node; Slurm believes it, whatever the machine has
GPUS = ("/dev/null", "/dev/zero")       # of each node; any device does
ELEMENTS = 4                    # of the longest array

CONF = """\
ClusterName=test
SlurmctldHost={host}({loopback})
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo="socket={folder}/munge.sock"
{plugins}
StateSaveLocation="{folder}/state"
SlurmdSpoolDir="{folder}/spool.%n"
SlurmctldPidFile="{folder}/slurmctld.pid"
SlurmdPidFile="{folder}/slurmd.%n.pid"
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
MaxArraySize={elements}
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PropagateResourceLimits=NONE
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
ReturnToService=2
MinJobAge=300
KillWait=12
SlurmdTimeout=10
SlurmctldDebug=info
SlurmdDebug=info
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
"""
PARTITION = "PartitionName={name} Nodes={nodes} MaxTime={time} State=UP PriorityTier={tier} {more}\n"


@dataclass(frozen=True)
class Programs:
    """Slurm and munge: installed, or unpacked under .cache."""

    daemons: Mapping[str, Path]
    commands: Mapping[str, Path]
    libraries: str = ""       # folders for LD_LIBRARY_PATH
    plugins: Path | None = None       # where they are not where the programs look for them


def find_programs() -> Programs:
    """Return installed or downloaded programs. Raise NotToBeHad."""
    return _installed() or _unpacked(fetched("slurm", "Slurm", PACKAGES, _in_packages))


def _installed() -> Programs | None:
    folders = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/usr/local/sbin"))
    found = {name: shutil.which(name, path=folders) for name in (*DAEMONS, *COMMANDS)}
    paths = {name: Path(path) for name, path in found.items() if path}
    if len(paths) < len(found):
        return None
    return Programs({name: paths[name] for name in DAEMONS}, {name: paths[name] for name in COMMANDS})


def _in_packages(root: Path) -> Sequence[Path]:
    return [*(root / "usr" / "sbin").iterdir(), *(root / "usr" / "bin").iterdir()]


def _unpacked(root: Path) -> Programs:
    sbin, plugins = root / "usr" / "sbin", next(root.rglob("auth_munge.so")).parent
    for name in DAEMONS:
        # A daemon asks its own name what it is, and Debian's have another one until they are installed.
        if not (sbin / name).exists():
            (sbin / name).symlink_to(f"{name}-wlm")
    return Programs(
        {name: sbin / name for name in DAEMONS},
        {name: root / "usr" / "bin" / name for name in COMMANDS if (root / "usr" / "bin" / name).exists()},
        library_path(root), plugins,
    )  # fmt: skip


class Cluster:
    """The cluster of a folder."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self._folder = folder
        self._programs = programs
        self._state = read_state(folder / STATE)

    def start(self, nodes: int) -> dict[str, Any]:
        """Start all daemons that do not run; return the state when all nodes are there."""
        if not self._state:
            self._make(nodes)
        for name in (MUNGED, CONTROLLER, *self._state["nodes"]):
            self.start_daemon(name)
        self._await_nodes()
        return self._state

    def start_daemon(self, name: str) -> None:
        """Start munged, slurmctld or the slurmd of a node, unless it runs."""
        if is_alive(self._state["daemons"].get(name, {})):
            return
        with (self._folder / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                self._argv(name), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                cwd=self._folder, env=environment(self._programs.libraries),
            )
        self._state["daemons"][name] = identity(process.pid)
        write_state(self._folder / STATE, self._state)
        if name == MUNGED:
            self._await(lambda: _accepts(self._folder / "munge.sock"), MUNGED)

    def end_daemon(self, name: str, number: signal.Signals) -> bool:
        """End a daemon; return False if it did not run."""
        return end(self._state.get("daemons", {}).get(name, {}), number)

    def stop(self) -> bool:
        """End what jobs left, and all daemons; return False if none ran."""
        names = list(self._state.get("daemons", {}))
        if is_alive(self._state.get("daemons", {}).get(CONTROLLER, {})):
            self._run("scancel", f"--user={getpass.getuser()}")
            self._await_empty()
        ended = [self.end_daemon(name, signal.SIGKILL) for name in reversed(names)]
        return any(ended)

    def _make(self, nodes: int) -> None:
        if len(os.fsencode(self._folder / "munge.sock")) > LONGEST_SOCKET_PATH:
            raise Failed(f"the path of {self._folder}/munge.sock is longer than that of a Unix socket may be")
        names, ports = [f"node{number}" for number in range(1, nodes + 1)], free_ports()
        host, plugins = socket.gethostname(), self._programs.plugins
        text = CONF.format(
            host=host, loopback=HOST, controller_port=next(ports), user=getpass.getuser(), folder=self._folder,
            plugins=f'PluginDir="{plugins}"' if plugins else "", elements=ELEMENTS,
        )
        for name in names:
            text += f"NodeName={name} NodeHostname={host} NodeAddr={HOST} Port={next(ports)} CPUs={CORES} "
            text += f"RealMemory={MEMORY_MB} Features=here,{name} Gres=gpu:{len(GPUS)}\n"
            (self._folder / f"spool.{name}").mkdir()
        every = ",".join(names)
        text += PARTITION.format(name="main", nodes=every, time="INFINITE", tier=1, more="Default=YES")
        text += PARTITION.format(name="short", nodes=every, time="1", tier=1, more="OverTimeLimit=0")
        text += PARTITION.format(name="urgent", nodes=every, time="INFINITE", tier=9, more="PreemptMode=OFF")
        (self._folder / "state").mkdir()
        (self._folder / "slurm.conf").write_text(text, encoding="utf-8")
        gpus = f"NodeName={every} Name=gpu File={','.join(GPUS)}\n"
        (self._folder / "gres.conf").write_text(gpus, encoding="utf-8")
        key = self._folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._write_commands()
        self._state = {
            "bin": str(self._folder / "bin"), "conf": str(self._folder / "slurm.conf"), "nodes": names, "daemons": {},
        }  # fmt: skip

    def _write_commands(self) -> None:
        """Write the commands of a user as scripts, which need no variable."""
        folder = self._folder / "bin"
        folder.mkdir()
        for name, path in self._programs.commands.items():
            lines = ["#!/bin/sh", f"export SLURM_CONF={shlex.quote(str(self._folder / 'slurm.conf'))}"]
            if self._programs.libraries:
                lines.append(f"export LD_LIBRARY_PATH={shlex.quote(self._programs.libraries)}")
            lines.append(f'exec {shlex.quote(str(path))} "$@"')
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
            (folder / name).chmod(0o755)

    def _argv(self, name: str) -> list[str]:
        daemons, conf = self._programs.daemons, str(self._folder / "slurm.conf")
        if name == MUNGED:
            files = ("socket=munge.sock", "key-file=munge.key", "log-file=munged.log", "pid-file=munged.pid")
            named = [f"--{file.replace('=', f'={self._folder}/')}" for file in (*files, "seed-file=munged.seed")]
            return [str(daemons[name]), "--foreground", "--force", "--num-threads=2", *named]
        if name == CONTROLLER:
            return [str(daemons[name]), "-D", "-f", conf]
        return [str(daemons["slurmd"]), "-D", "-N", name, "-f", conf, "-d", str(daemons["slurmstepd"])]

    def _await_nodes(self) -> None:
        def are_there() -> bool:
            seen = self._run("sinfo", "--noheader", "--Node", "--format=%N %T", "--partition=main").split("\n")
            states = dict(line.split()[:2] for line in seen if line)
            ready = {"idle", "mixed", "allocated"}
            return all(states.get(name) in ready for name in self._state["nodes"])

        self._await(are_there, CONTROLLER)

    def _await_empty(self) -> None:
        deadline = time.monotonic() + START_SECONDS / 4
        while self._run("squeue", "--noheader").strip() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _await(self, is_there: Any, name: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_there():
            if time.monotonic() > deadline or not is_alive(self._state["daemons"][name]):
                log = self._folder / f"{name}.log"
                raise Failed(f"{name} is not ready; the end of {log}:\n{last_lines(log.read_bytes())}")
            time.sleep(POLL_SECONDS)

    def _run(self, command: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._folder / "bin" / command), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, check=False, timeout=START_SECONDS,
        )
        return done.stdout.decode("utf-8", "replace")


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bin/slurm", description="A Slurm cluster for tests.")
    parser.add_argument("verb", choices=["fetch", "start", "stop", "kill"],
                        help="fetch only makes sure that the programs are there; kill sends SIGKILL to a DAEMON, and "
                             "start brings it back")
    parser.add_argument("daemon", nargs="?", default="", help="munged, slurmctld, or a node: node1, node2, ...")
    parser.add_argument("--dir", type=Path, help="folder of its state; created if missing")
    parser.add_argument("--nodes", type=int, default=1, help="how many, if it is made (1)")
    asked = parser.parse_args(arguments)
    try:
        programs = find_programs()
        if asked.verb == "fetch":
            sys.stdout.write(json.dumps({"slurmctld": str(programs.daemons[CONTROLLER])}) + "\n")
            return 0
        if asked.dir is None:
            parser.error(f"{asked.verb} needs --dir")
        return _on_cluster(asked, programs)
    except NotToBeHad as error:
        sys.stderr.write(f"Slurm is not available: {error}\n")
        return NOT_TO_BE_HAD
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"Slurm: {error}\n")
        return 1


def _on_cluster(asked: argparse.Namespace, programs: Programs) -> int:
    folder = asked.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "slurm.lock"):
        cluster = Cluster(folder, programs)
        match asked.verb:
            case "start" if asked.daemon:
                cluster.start_daemon(asked.daemon)
            case "start":
                state = cluster.start(asked.nodes)
                sys.stdout.write(json.dumps({key: state[key] for key in ("bin", "conf", "nodes")}) + "\n")
            case "kill":
                cluster.end_daemon(asked.daemon, signal.SIGKILL)
            case _:
                was_running = cluster.stop()
                sys.stderr.write(f"Slurm {'has ended' if was_running else 'was not running'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
