"""(7) A large CSV file in and out: how long it takes, and how much memory at the server, its workers and `flow`."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import requests

from fate_flow.engines.local.worker import RUNNER, Started
from tests.bench.cluster import FINAL, GUEST, BenchFailed, Server, fresh_cluster
from tests.bench.processes import CpuMeter, server_processes
from tests.kit.peak import PeakMeter, begin_anew, peak

MB = 1024 * 1024
JOB_SECONDS = 600.0
COLUMNS = 10


def measure(megabytes: int) -> dict[str, Any]:
    with fresh_cluster("upload", (GUEST,)) as servers:
        server = servers[GUEST]
        first = server.home.parent / "small.csv"
        write_csv(first, 1_000)             # a server that has taken no file yet grows by what it imports
        _watched(server, _upload(server, first)["job_id"], "upload_0")
        file = server.home.parent / "large.csv"
        rows = write_csv(file, megabytes * MB)
        processes = [one for one in server_processes(server) if one.kind != "spawner"]
        before = {one.process.pid: one.memory_kb()["Rss"] * 1024 for one in processes}
        for pid in before:
            begin_anew(pid)
        meter = CpuMeter([server])
        sent = _upload(server, file)
        grown = max(peak(pid) - rss for pid, rss in before.items())
        inside = _watched(server, sent.pop("job_id"), "upload_0")
        back = server.home / "downloads" / "large.csv"
        described = {"namespace": "bench", "table_name": "large", "output_path": str(back)}
        outside = _watched(server, _ask(server, "data/download", described)["jobId"], "download_0")
        if back.read_bytes() != file.read_bytes():
            raise BenchFailed("the download differs from the upload")
        others = round(meter.read().others_percent, 1)
    return {
        "rows": rows, "server_grew_mb": round(grown / MB, 1), **sent, "upload": inside, "download": outside,
        "others_percent": others,
    }  # fmt: skip


def write_csv(path: Path, size: int) -> int:
    """So many bytes of random ids and numbers; how many rows that are."""
    chance = random.Random(1)
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        written = file.write("id," + ",".join(f"x{number}" for number in range(COLUMNS)) + "\n")
        while written < size:
            values = ",".join(f"{chance.random():.6f}" for _ in range(COLUMNS))
            written += file.write(f"{chance.getrandbits(128):032x},{values}\n")
            rows += 1
    return rows


def _upload(server: Server, file: Path) -> dict[str, Any]:
    conf = file.with_suffix(".json")
    conf.write_text(json.dumps({
        "file": str(file), "head": 1, "partition": 1, "namespace": "bench", "table_name": file.stem, "task_cores": 1,
    }))  # fmt: skip
    flow = [str(Path(sys.executable).with_name("flow")), "--server", server.url, "data", "upload", "-c", str(conf)]
    begun = time.monotonic()
    with (
        subprocess.Popen(flow, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process,
        PeakMeter(process.pid) as meter,
    ):
        out, _ = process.communicate(timeout=JOB_SECONDS)
    if process.returncode:
        raise BenchFailed(f"flow data upload ended with {process.returncode}: {out.decode()}")
    return {
        "job_id": str(json.loads(out)["jobId"]), "sent_s": round(time.monotonic() - begun, 2),
        "flow_peak_mb": round(meter.bytes / MB, 1),
    }  # fmt: skip


def _watched(server: Server, job_id: str, component: str) -> dict[str, float]:
    """How long the job took from its worker on, and how large that became."""
    folders = server.home / "jobs" / job_id
    deadline = time.monotonic() + JOB_SECONDS
    while not (found := list(folders.glob(f"*/*/{component}/*/*/task_executor/*/{RUNNER}"))):
        if time.monotonic() > deadline:
            raise BenchFailed(f"job {job_id} has no worker after {JOB_SECONDS:g} s")
        time.sleep(0.002)
    started = Started.read(found[0].parent)
    assert started is not None
    begun = time.monotonic()
    worker = psutil.Process(started.worker.pid)
    cpu = 0.0
    with PeakMeter(worker.pid) as meter:
        while (row := _ask(server, "job/query", {"job_id": job_id})["data"][0])["f_status"] not in FINAL:
            if time.monotonic() > deadline:
                raise BenchFailed(f"job {job_id} did not end within {JOB_SECONDS:g} s")
            cpu = max(cpu, _cpu_seconds(worker))
            time.sleep(0.05)
    if row["f_status"] != "success":
        raise BenchFailed(f"job {job_id} ended as {row['f_status']}: {row['f_message']}")
    took = round(time.monotonic() - begun, 2)
    return {"took_s": took, "worker_cpu_s": round(cpu, 1), "worker_peak_mb": round(meter.bytes / MB, 1)}


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _ask(server: Server, path: str, body: dict[str, Any]) -> Any:
    answer = requests.post(f"{server.url}/v1/{path}", json=body, timeout=60, auth=server.auth).json()
    if answer["retcode"]:
        raise BenchFailed(f"{path}: {answer}")
    return answer
