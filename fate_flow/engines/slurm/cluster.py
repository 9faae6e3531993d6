"""Slurm as a cluster of runners, by sbatch, squeue and scancel.

One squeue lists all jobs of the user. Nothing is named by its number alone, because Slurm uses numbers again: a job is
named by its name, which nobody else has, and its user. Runners that come together are one job array (`arrays.py`).
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from fate_flow.core.model.resources import Need
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.placed.cluster import Listed, Placement, Stage, Submission, Taken, Unreadable
from fate_flow.engines.placed.folder import OUTPUT, end_of_output
from fate_flow.engines.placed.run import TIME_IS_OVER
from fate_flow.engines.slurm.arrays import Arrays, numbered, script_of
from fate_flow.engines.slurm.tables import STATES, TITLE, cause_noted, refusal_of, waiting_of

log = logging.getLogger(__name__)

_FORMAT = "%T|%D|%r|%i|%j|%k"      # the comment is the last, since a path may have any character
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SLURM_CONF", "PYTHONPATH")
"""What a job gets of the environment of the server: SLURM_* and SBATCH_* would change what is submitted."""
_TO_END_SECONDS = 60               # Slurm's own limit of time is later than that of the runner by this


@dataclass(frozen=True)
class Share:
    """What the jobs of somebody get of the cluster; empty: what Slurm gives by default."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""


@dataclass(frozen=True)
class SlurmCluster:
    """The jobs of this user whose names begin with `prefix`."""

    prefix: str
    own: Share = field(default_factory=Share)
    partners: Mapping[str, Share] = field(default_factory=dict)      # by party; another party gets what `own` says
    commands: Path | None = None             # the folder of sbatch and its like; None: they are on PATH
    longest_time: int = 0                    # seconds; the most that is asked for; 0: no limit
    features: Mapping[str, str] = field(default_factory=dict)        # of nodes, by the label of jobs
    command_seconds: float = 30.0
    scratch: Path | None = None              # on nodes without the home: where Slurm's own output is
    arrays: Arrays = field(default_factory=Arrays, init=False)

    @property
    def title(self) -> str:
        return TITLE

    def submit(self, placement: Placement) -> Submission:
        script = f"#!/bin/sh\nexec {shlex.join(placement.argv)}\n"
        named = self._named(placement.name, placement.folder, placement.folder / OUTPUT)
        return self._submit(script, placement, named, placement.secrets)

    def submit_together(self, placements: Sequence[Placement]) -> Submission:
        if len(placements) > self.arrays.most:
            return Submission(Taken.TOO_MANY)
        try:
            folder = self.arrays.write([one.folder for one in placements])
        except OSError as error:
            log.warning("no array of %d jobs: its list cannot be written: %s", len(placements), os_error_text(error))
            return Submission(Taken.TOO_MANY)
        named = self._named(f"{self.prefix}{folder.name}", folder, folder / "%a" / OUTPUT, "-%a")
        options = [*named, f"--array=0-{len(placements) - 1}"]
        script = script_of([one.argv for one in placements], placements[0].secrets)
        answer = self._submit(script, placements[0], options, numbered([one.secrets for one in placements]))
        if answer.taken is Taken.TOO_MANY:
            self.arrays.most = len(placements) - 1
            log.info("sbatch takes no array of %d jobs: %s", len(placements), answer.text)
        if answer.taken in (Taken.TOO_MANY, Taken.REFUSED, Taken.NOT_REACHED):
            self.arrays.remove(folder)
        return answer

    def _submit(
        self, script: str, placement: Placement, named: Sequence[str], secrets: Mapping[str, str]
    ) -> Submission:
        # A secret is in the environment alone: Slurm shows the script to the user of a job, whose programs are that.
        env = {**placement.env, **secrets}
        self.arrays.has_looked = False
        try:
            done = self._run("sbatch", *named, *self._options(placement), stdin=script, env=env)
        except subprocess.TimeoutExpired:
            return Submission(Taken.IN_DOUBT, f"sbatch has not ended within {self.command_seconds:g} s")
        except OSError as error:
            return Submission(Taken.REFUSED, f"sbatch cannot be executed: {error.strerror}: {error.filename}")
        if done.returncode == 0:
            return Submission(Taken.ACCEPTED, done.stdout.strip())
        if done.returncode < 0:
            return Submission(Taken.IN_DOUBT, f"sbatch ended with signal {-done.returncode}")
        return refusal_of(done.stderr)

    def listing(self) -> Sequence[Listed]:
        self.arrays.has_looked = False
        return self._listing()

    def _listing(self) -> Sequence[Listed]:
        try:
            done = self._run(
                "squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", f"--format={_FORMAT}"
            )
        except subprocess.TimeoutExpired:
            raise Unreadable(f"squeue has not ended within {self.command_seconds:g} s") from None
        except OSError as error:
            raise Unreadable(f"squeue cannot be executed: {error.strerror}: {error.filename}") from error
        # A squeue that could not read may have printed a part, and an end without an error is no list either.
        if done.returncode != 0 or done.stderr.strip():
            raise Unreadable(" ".join(done.stderr.split())[:300] or f"squeue ended with {done.returncode}")
        try:
            return self.arrays.workers(self.prefix, read_listing(done.stdout, self.prefix))
        except OSError as error:
            raise Unreadable(f"the list of an array cannot be read: {os_error_text(error)}") from error

    def signal(self, name: str) -> None:
        # It may be of an array that this process has not seen yet. One look is for all workers of a job that stops.
        if not self.arrays.is_listed(name) and not self.arrays.has_looked:
            with suppress(Unreadable):
                self._listing()
            self.arrays.has_looked = True
        self._tell("--batch", "--signal=TERM", *self.arrays.selected(name))

    def cancel(self, name: str) -> None:
        self._tell(*self.arrays.selected(name))

    def admit(self, name: str) -> None:
        """Nothing: no place is kept for a job."""

    def cause_in(self, folder: Path) -> tuple[str, str]:
        return cause_noted(end_of_output(folder / OUTPUT).decode("utf-8", "replace"))

    def _tell(self, *options: str) -> None:
        """Run scancel. What it cannot do now is asked again after a listing."""
        try:
            done = self._run("scancel", "--quiet", *options)
        except (subprocess.TimeoutExpired, OSError) as error:
            log.warning("scancel: %s", error)
            return
        if done.returncode and (said := " ".join(done.stderr.split())):     # of an element it may fail without a word
            log.warning("scancel %s: %s", " ".join(options), said[:300])

    def _named(self, name: str, comment: Path, output: Path, element: str = "") -> list[str]:
        """Return the options that tell a job from all others. `output`: where nodes have the home; `element`: what
        tells the outputs of an array from each other where they have not."""
        if self.scratch is not None:
            output = self.scratch / f"{name}{element}.out"
        return [f"--job-name={name}", f"--comment={comment}", f"--output={output}"]

    def _options(self, placement: Placement) -> list[str]:
        """Return the options that are the same for all runners that are submitted together."""
        share, need = self.partners.get(placement.partner, self.own), placement.need
        found = [
            "--parsable", "--no-requeue", "--open-mode=append", "--chdir=/", "--export=ALL", "--nodes=1",
            "--ntasks=1", f"--cpus-per-task={max(1, need.cores)}",
            f"--signal=B:{TIME_IS_OVER.name.removeprefix('SIG')}@{max(1, ceil(placement.grace_seconds))}",
        ]  # fmt: skip
        given = {
            "partition": need.queue or share.partition, "account": share.account, "qos": share.qos,
            "constraint": "&".join(filter(None, (share.constraint, *(self.features[one] for one in need.labels)))),
            "mem": f"{need.memory_mb}M" if need.memory_mb else "", "gres": f"gpu:{need.gpus}" if need.gpus else "",
            "time": self._time(need, placement.grace_seconds),
        }  # fmt: skip
        return [*found, *(f"--{name}={value}" for name, value in given.items() if value)]

    def _time(self, need: Need, grace_seconds: float) -> str:
        """Return the value of --time, in minutes; empty if neither the worker nor the party has a limit."""
        asked = need.time_limit_seconds + grace_seconds + _TO_END_SECONDS if need.time_limit_seconds else 0
        limits = [one for one in (asked, self.longest_time) if one]
        return str(ceil(min(limits) / 60)) if limits else ""

    def _run(
        self, command: str, *options: str, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command. Raises OSError if there is none, TimeoutExpired if it was killed because it took too long."""
        program = str(self.commands / command) if self.commands is not None else command
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        return subprocess.run(
            [program, *options], input=stdin, env={**kept, **(env or {})}, capture_output=True, text=True, check=False,
            errors="replace", timeout=self.command_seconds, start_new_session=True, cwd="/",
        )  # fmt: skip


def read_listing(text: str, prefix: str) -> tuple[tuple[str, Listed], ...]:
    """Return the jobs of a listing whose names have this prefix, each with its number; what else the user has there is
    left out."""
    return tuple(one for line in text.splitlines() if (one := _listed(line, prefix)) is not None)


def _listed(line: str, prefix: str) -> tuple[str, Listed] | None:
    parts = line.split("|", 5)
    if len(parts) < 6 or not parts[4].startswith(prefix):
        return None
    state, nodes, reason, number, name, folder = parts
    stage, cause = STATES.get(state, (Stage.UNKNOWN, ""))
    word = f"{state} ({reason})" if reason not in ("", "None") else state
    waiting = waiting_of(reason, nodes) if stage is Stage.PENDING else None
    return number, Listed(name, folder, stage, cause, word, waiting)
