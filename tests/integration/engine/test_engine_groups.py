"""Limits of a worker that the kernel holds, and that nothing of it survives its end, whatever it forks."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.engines.local.engine import LocalEngine
from fate_flow.engines.local.groups import LIMITS, Groups, Limits
from fate_flow.engines.local.worker import RUN, Exit, ProcessId
from tests.kit.servers.engine_site import Site, is_running, line_in, started
from tests.kit.servers.groups import FOUND, needs_groups
from tests.kit.servers.programs import ESCAPE
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

HOG = """
import sys
kept = []
for _ in range(int(sys.argv[1])):
    kept.append(bytearray(b"x") * (1 << 20))
print("had it all", flush=True)
"""

BOMB = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):       # a bound of its own, should there be no other
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except OSError as error:
        print(made, error.strerror, flush=True)
        break
    made += 1
else:
    print(made, "without a limit", flush=True)
"""


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    assert FOUND.groups is not None
    groups = replace(FOUND.groups, name=f"fate_flow-test-{uuid.uuid4().hex[:8]}")
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / LIMITS).write_text(groups.to_json())
    return groups


@pytest.fixture
def limited(groups: Groups, tmp_path: Path) -> Iterator[Site]:
    """A site whose workers have groups."""
    site = Site(tmp_path)
    site.engine = LocalEngine(site.to_spawner, groups)
    site.start_spawner()
    yield site
    eventually(site.is_quiet)
    folders = [Path(tree) / groups.name for tree in groups.trees.values()]
    eventually(lambda: not any(folder.exists() for folder in folders))      # nothing is left on this machine
    site.close()


@needs_groups
def test_a_worker_that_uses_more_than_its_memory_is_killed_and_the_record_says_so(limited: Site) -> None:
    folder = limited.python(HOG, "300", limits=Limits(memory_mb=64))
    text = "used more than its 64 MB (task_memory)"
    assert limited.end_of(folder) == Exit(None, signal.SIGKILL, "out_of_memory", text)
    assert "had it all" not in limited.output_of(folder)
    assert limited.end_of(limited.python(HOG, "10", name="other", limits=Limits(memory_mb=64))).exit_code == 0


@needs_groups
def test_a_fork_bomb_has_a_bound_and_leaves_nothing(limited: Site) -> None:
    folder = limited.python(BOMB, "200", limits=Limits(processes=20))
    assert limited.end_of(folder).exit_code == 0
    made, why = limited.output_of(folder).strip().split(maxsplit=1)
    assert (int(made), why) == (19, "Resource temporarily unavailable")
    assert not limited.engine.stop(folder, 0)


@needs_groups
@pytest.mark.parametrize("environment", ["kept", "cleared"])
def test_nothing_survives_a_worker_that_killed_its_runner_and_left_its_session(
    limited: Site, environment: str
) -> None:
    folder = limited.python(ESCAPE, environment, str(limited.home / "escaped"), "end")
    pid = int(line_in(limited.home / "escaped"))
    eventually(lambda: not is_running(pid))
    eventually(lambda: limited.engine.observe(folder).state == "lost")


@needs_groups
def test_what_is_left_without_a_spawner_ends_with_a_stop_and_with_the_next_spawner(
    limited: Site, groups: Groups
) -> None:
    """The process is in a session of its own, without a mark in its environment: only its group leads to it."""
    folder = limited.python(ESCAPE, "cleared", str(limited.home / "escaped"), "sleep")
    pid = int(line_in(limited.home / "escaped"))
    eventually(lambda: not started(folder).runner.is_alive())
    assert limited.spawner is not None
    limited.spawner.kill()
    limited.spawner.wait()
    assert is_running(pid)
    limited.engine.stop(folder, 0)
    eventually(lambda: not is_running(pid))     # the stop waits a second for it, and a busy machine may take longer
    eventually(lambda: not started(folder).worker.is_alive())
    # A group whose worker is over, as a machine that lost its power for a moment may have it after a crash.
    left = groups.begin("left", Limits())
    limited.start_spawner()
    eventually(lambda: not any(one.exists() for one in left.folders))


@needs_groups
def test_the_cores_of_a_worker_are_a_limit(limited: Site, groups: Groups) -> None:
    folder = limited.python("import time; time.sleep(600)", limits=Limits(cores=3, memory_mb=100))
    group = groups.find(folder.name)
    pid = started(folder).worker.pid
    eventually(lambda: str(pid) in (group.folders[0] / "cgroup.procs").read_text().split())
    if cpu := group.by_controller.get("cpu"):
        file = cpu / ("cpu.max" if groups.version != 1 else "cpu.cfs_quota_us")
        assert file.read_text().split()[0] == "300000"
    assert ProcessId.of(pid).is_alive()
    limited.engine.stop(folder, 0)
    assert limited.end_of(folder).cause == "stopped"


def test_without_groups_each_process_of_a_worker_has_the_limit(site: Site) -> None:
    """And an allocation beyond it fails. Of a fork of the spawner, what it inherits does not count."""
    folder = site.python(HOG, "300", limits=Limits(memory_mb=100))
    end = site.end_of(folder)
    assert (end.exit_code, end.cause) == (1, "exited")
    assert "MemoryError" in site.output_of(folder, "err.log")
    assert site.end_of(site.python(HOG, "10", name="other", limits=Limits(memory_mb=100))).exit_code == 0
    assert site.end_of(site.builtin("return", "3", name="fork", limits=Limits(memory_mb=100))).exit_code == 3
    assert os.path.isdir(folder)


@needs_groups
def test_a_group_begins_while_that_of_another_worker_ends(groups: Groups) -> None:
    groups = replace(groups, memory_bytes=1 << 40)

    def begin_and_end(who: str) -> None:
        for number in range(50):
            groups.begin(f"{who}-{number}", Limits(cores=1, memory_mb=64, processes=16)).end()

    with ThreadPoolExecutor(4) as threads:
        for ended in [threads.submit(begin_and_end, who) for who in "abcd"]:
            ended.result()
    assert groups.names() == set()


NEST = """
import os, subprocess, sys
for folder in sys.argv[2:]:
    os.makedirs(f"{folder}/inner/most")
sleeping = subprocess.Popen(["sleep", "600"], start_new_session=True)
for folder in sys.argv[2:]:
    open(f"{folder}/inner/most/cgroup.procs", "w").write(str(sleeping.pid))
open(sys.argv[1], "w").write(str(sleeping.pid))
"""


@needs_groups
def test_groups_that_a_worker_makes_in_its_own_end_with_it(limited: Site, groups: Groups) -> None:
    inside = [str(one) for one in groups.find("w").folders]
    folder = limited.python(NEST, str(limited.home / "nested"), *inside, name="w")
    assert limited.end_of(folder).exit_code == 0, limited.output_of(folder, "err.log")
    assert not is_running(int((limited.home / "nested").read_text()))
    eventually(lambda: not any(os.path.exists(one) for one in inside))


@needs_groups
def test_the_memory_of_all_workers_is_raised_and_lowered_while_they_live(limited: Site, groups: Groups) -> None:
    size, small = 600 << 20, 32 << 20
    holds = "kept = bytearray(b'x') * (100 << 20); print('has it', flush=True); import time; time.sleep(600)"
    folder = limited.python(holds, limits=Limits(memory_mb=300))
    line_in(limited.home / "logs/w/std.log")
    for now in (size, 2 * size, size):
        replace(groups, memory_bytes=now).begin("trial", Limits(memory_mb=64)).end()
        file = "memory.limit_in_bytes" if groups.version == 1 else "memory.max"
        assert int((Path(groups.trees["memory"]) / groups.name / file).read_text()) == now
    if groups.version == 1:         # version 2 kills what is too much
        replace(groups, memory_bytes=small).begin("trial", Limits(memory_mb=16)).end()
    assert started(folder).worker.is_alive()
    limited.engine.stop(folder, 0)
    assert limited.end_of(folder).cause == "stopped"
