"""This tree against another commit: what a two-party toy job costs, in one run, by turns.

Both clusters run at the same time, with TLS between their parties, and their jobs take turns, one by one and in bursts:
whatever else the machine does, it does to both. In every second round this tree goes first. A ratio is the median over
the rounds of this tree's number by the other one's; its spread is that of the rounds.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.burst import await_quiet, costs_of, rates_of, submit_all
from tests.bench.cluster import (
    BASE_PORT,
    CHECKOUT,
    FULL,
    GUEST,
    HOST,
    ROOT,
    BenchFailed,
    Client,
    Servers,
    fresh_cluster,
)
from tests.bench.latency import WARM_UP, run_one_by_one, summary
from tests.bench.numbers import spread
from tests.bench.processes import CpuMeter
from tests.kit.tool import tell

OTHER, THIS = "other", "this tree"
COST = "servers, one by one"
"""The number that a limit is for: the processor time of a job in the servers of both parties."""


@dataclass(frozen=True)
class Sizes:
    rounds: int
    jobs: int            # one by one, in each round
    at_once: int         # in each round


FULL_SIZES, SHORT_SIZES = Sizes(8, 10, 60), Sizes(4, 5, 20)


class NotThere(BenchFailed):
    """There is no such commit here: nothing is compared."""


def measure(revision: str, sizes: Sizes) -> dict[str, Any]:
    """Return the numbers of both trees and their ratios. Raise NotThere, or BenchFailed."""
    commit = commit_of(revision)
    tree, overlay = tree_of(commit), {**FULL, "record": {"switch": True}}        # also where it is off by default
    with (
        fresh_cluster("other", cores=sizes.at_once + 20, over_tls=True, overlay=overlay, checkout=tree) as other,
        fresh_cluster(
            "this", cores=sizes.at_once + 20, base_port=BASE_PORT + 300, over_tls=True, overlay=overlay
        ) as own,
    ):
        clusters = {OTHER: other, THIS: own}
        for servers in clusters.values():
            run_one_by_one(servers, Client(servers[GUEST], servers[HOST]), WARM_UP)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in clusters}
        for number in range(sizes.rounds):
            tell(f"round {number + 1} of {sizes.rounds} ...")
            for name in (OTHER, THIS) if number % 2 == 0 else (THIS, OTHER):
                rounds[name].append(_round(clusters[name], sizes))
    return {"commit": commit, "sizes": vars(sizes), "rounds": rounds, **compared(rounds)}


def compared(rounds: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return the medians of both trees and the spread of the ratios, by what was measured."""
    names = rounds[THIS][0]
    medians = {
        name: {tree: round(statistics.median(one[name] for one in listed), 1) for tree, listed in rounds.items()}
        for name in names
    }
    pairs = list(zip(rounds[THIS], rounds[OTHER], strict=True))
    ratios = {name: spread([own[name] / other[name] for own, other in pairs], 3) for name in names}
    return {"medians": medians, "ratios": ratios}


def is_dearer(found: Mapping[str, Any], most: float) -> bool:
    """Return whether a job costs more than `most` times as much processor time as with the other tree."""
    return bool(found["ratios"][COST]["median"] > most)


def show(found: Mapping[str, Any]) -> None:
    rounds = found["sizes"]["rounds"]
    print(f"\nTHIS TREE AGAINST {found['commit'][:12]}: a two-party toy job, medians of {rounds} rounds")
    print(f"    {'':<36}{'other':>9}{'this':>9}{'ratio':>8}   of all rounds")
    for name, medians in found["medians"].items():
        ratio = found["ratios"][name]
        print(
            f"    {name:<36}{medians[OTHER]:>9.1f}{medians[THIS]:>9.1f}{ratio['median']:>8.3f}"
            f"   {ratio['min']:.3f} to {ratio['max']:.3f}",
            flush=True,
        )


def _round(servers: Servers, sizes: Sizes) -> dict[str, float]:
    client = Client(servers[GUEST], servers[HOST])
    meter = CpuMeter(servers.values())
    alone = summary(run_one_by_one(servers, client, sizes.jobs))
    await_quiet(servers)
    one_by_one = costs_of(meter.read(), sizes.jobs)
    meter = CpuMeter(servers.values())
    submitted = submit_all(client, sizes.at_once)
    await_quiet(servers)
    at_once = costs_of(meter.read(), sizes.at_once)
    rates = rates_of(servers, submitted)
    return {
        COST: one_by_one["servers: all"],
        "workers and runners, one by one": one_by_one["workers and runners"],
        "servers, at once": at_once["servers: all"],
        "workers and runners, at once": at_once["workers and runners"],
        "submit -> running at both, ms": alone["start_ms"]["median"],
        "submit -> success, ms": alone["success_ms"]["median"],
        "started a second, at once": rates["starts_per_s"],
    }


# ------------------------------------------------------------------ the other tree


def commit_of(revision: str) -> str:
    """Return the commit that this revision names. Raise NotThere."""
    done = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if done.returncode:
        raise NotThere(f"{revision} is no commit of this checkout, or its history was not cloned")
    return done.stdout.decode().strip()


def tree_of(commit: str) -> Path:
    """Return a folder with the files of a commit, which has its own environment. It stays for the next time. Raise
    BenchFailed."""
    folder = ROOT / "trees" / commit
    if not folder.exists():
        draft = folder.with_name(f"{commit}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        packed = _git("archive", "--format=tar", commit)
        if packed.returncode:
            raise BenchFailed(f"git archive {commit}: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", str(draft)], input=packed.stdout, check=True)
        packages = CHECKOUT / ".cache" / "pip"           # those that are here already
        packages.mkdir(parents=True, exist_ok=True)
        (draft / ".cache").mkdir()
        (draft / ".cache" / "pip").symlink_to(packages)
        draft.rename(folder)
    python = {"FATE_FLOW_BASE_PYTHON": str(Path(sys.executable).resolve())}        # the same for both trees
    made = subprocess.run(
        [folder / "bin" / "cluster", "--help"], env=os.environ | python, capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise BenchFailed(f"the environment of {commit} cannot be made: {made.stderr.strip()}")
    return folder


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, check=False)
