"""A real Slurm of one machine: slurmctld, a slurmd for each node and munged, in a folder of the test."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.waiting import SECONDS, eventually

SLURM = "FATE_FLOW_TEST_SLURM"
CONTROLLER, NODE, OTHER_NODE = "slurmctld", "node1", "node2"
CORES, GPUS = 4, 2  # of a node, as it believes
ELEMENTS = 4        # of the longest array that it takes
_UP = ("idle", "mixed", "allocated")
_SCRIPT = Path(__file__).parents[3] / "bin" / "slurm"


@dataclass(frozen=True)
class SlurmJob:
    """A job that Slurm remembers, or one element of an array."""

    number: str
    name: str
    state: str
    node: str
    gpus: str
    comment: str


@dataclass(frozen=True)
class SlurmCluster:
    """The cluster of a folder. A test that kills a daemon starts it again."""

    folder: Path
    bin: Path                     # of sbatch and its like, which find this cluster alone

    def run(self, command: str, *arguments: str) -> str:
        """What a command of Slurm prints; it has to succeed."""
        done = self._done(command, *arguments)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def end_time_of(self, number: str) -> None:
        """Let the time of a job be over. Slurm refuses a moment that has passed on the way to it."""
        eventually(lambda: self._done("scontrol", "update", f"JobId={number}", "EndTime=now").returncode == 0)

    def _done(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command), *arguments], capture_output=True, text=True, check=False, timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self, daemon: str) -> None:
        """kill -9 of slurmctld, or of the slurmd of a node."""
        _slurm("kill", daemon, "--dir", str(self.folder))

    def start(self, daemon: str) -> None:
        _slurm("start", daemon, "--dir", str(self.folder))

    def commands_that_may_fail(self, folder: Path) -> Path:
        """A folder of commands; if the file `lose` is there, the next sbatch submits and dies without an answer."""
        folder.mkdir()
        for command in self.bin.iterdir():
            (folder / command.name).symlink_to(command)
        (folder / "sbatch").unlink()
        real, lose = self.bin / "sbatch", shlex.quote(str(folder / "lose"))
        (folder / "sbatch").write_text(
            f'#!/bin/sh\nif [ -e {lose} ]; then rm {lose}; {shlex.quote(str(real))} "$@" > /dev/null; kill -9 $$; fi\n'
            f'exec {shlex.quote(str(real))} "$@"\n'
        )
        (folder / "sbatch").chmod(0o755)
        return folder

    @contextmanager
    def drained(self, *nodes: str) -> Iterator[None]:
        """No job begins meanwhile on these nodes, or on any."""
        self.set_nodes("drain", *nodes)
        try:
            yield
        finally:
            self.set_nodes("resume", *nodes)

    def set_nodes(self, state: str, *nodes: str) -> None:
        """Set the state of these nodes, or of all."""
        names = ",".join(nodes or (NODE, OTHER_NODE))
        self.run("scontrol", "update", f"NodeName={names}", f"State={state}", "Reason=test")

    def heal(self) -> None:
        """Let jobs begin on all nodes."""
        def are_up() -> bool:
            states = {node: self.state_of(node) for node in (NODE, OTHER_NODE)}
            kept = [node for node, state in states.items() if state.startswith(("drain", "down"))]
            for node in kept:        # one that has come back by itself meanwhile needs no help, and Slurm refuses it
                self._done("scontrol", "update", f"NodeName={node}", "State=resume")
            return all(state in _UP for state in states.values())

        eventually(self.answers)
        eventually(are_up, lambda: self.run("sinfo", "--Node", "--long"))

    def state_of(self, node: str) -> str:
        return self.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").split()[0]

    def is_up(self, node: str) -> bool:
        """Whether jobs can begin on a node. One that was down comes back when its slurmd does."""
        return self.state_of(node) in _UP

    def answers(self) -> bool:
        """Whether the controller can be asked."""
        return self._done("squeue").returncode == 0

    def states(self) -> dict[str, str]:
        """The state of each job that Slurm remembers, by its name."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%j %T").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def jobs(self) -> list[SlurmJob]:
        """All that it remembers."""
        lines = self.run("squeue", "--noheader", "--array", "--states=all", "--format=%i|%j|%T|%N|%b|%k").splitlines()
        return [SlurmJob(*line.split("|", 5)) for line in lines]


@contextmanager
def running_slurm(nodes: int = 2) -> Iterator[SlurmCluster]:
    """A cluster that is taken down with its jobs; skips the test where there is no Slurm."""
    if not os.environ.get(SLURM):
        pytest.skip(f"{SLURM} is empty: Slurm is neither installed nor to be downloaded (bin/test says why)")
    folder = Path(tempfile.mkdtemp(prefix="s"))        # short, for the path of munge's socket
    try:
        state = json.loads(_slurm("start", "--dir", str(folder), "--nodes", str(nodes)))
        yield SlurmCluster(folder, Path(state["bin"]))
    finally:
        _slurm("stop", "--dir", str(folder))
        shutil.rmtree(folder)


def _slurm(*arguments: str) -> str:
    done = subprocess.run(
        [str(_SCRIPT), *arguments], capture_output=True, text=True, check=False, timeout=2 * SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
