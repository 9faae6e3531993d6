"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from tests.bench.cluster import CHECKOUT, ROOT
from tests.bench.numbers import p90

_PACKAGES = ("fate_flow", "Flask", "gunicorn", "peewee", "requests", "APScheduler", "psutil")
_FLUSHES = 200


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "filesystem": _filesystem(ROOT),
        "fsync_ms": fsync_milliseconds(ROOT),
        "load_before": os.getloadavg(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": _commit(),
    }


def fsync_milliseconds(folder: Path) -> dict[str, float]:
    """Of a 4 KB append and its fsync: the median and the 90th percentile."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"fsync.{os.getpid()}"
    took = []
    try:
        with path.open("ab", buffering=0) as file:
            for _ in range(_FLUSHES):
                begun = time.perf_counter()
                file.write(b"\0" * 4096)
                os.fsync(file.fileno())
                took.append((time.perf_counter() - begun) * 1000)
    finally:
        path.unlink(missing_ok=True)
    return {"median": round(statistics.median(took), 3), "p90": round(p90(took), 3)}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _filesystem(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [one for one in psutil.disk_partitions(all=True) if folder.is_relative_to(one.mountpoint)]
    longest = max(parts, key=lambda one: len(one.mountpoint))
    return f"{longest.fstype} ({longest.opts})"


def _commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--abbrev=10"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"
