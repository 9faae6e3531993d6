"""What is written into the files of a group: a plain folder stands for the tree of the kernel here."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.engines.local import groups as groups_module
from fate_flow.engines.local import strays as strays_module
from fate_flow.engines.local.groups import LIMITS, Groups, Limits
from fate_flow.engines.local.strays import Strays

ALL = Limits(cores=3, memory_mb=512, processes=99)
RUNNER = 2**22 + 1          # no process has this number


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def of_version_2(tmp_path: Path, memory_bytes: int = 0) -> Groups:
    return Groups(2, dict.fromkeys(("memory", "pids", "cpu"), str(tmp_path)), "f", memory_bytes)


def of_version_1(tmp_path: Path) -> Groups:
    for name in ("m", "p", "c"):
        (tmp_path / name).mkdir()
    return Groups(1, {"memory": str(tmp_path / "m"), "pids": str(tmp_path / "p"), "cpu": str(tmp_path / "c")}, "f")


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_version_2_has_all_limits_in_one_group(tmp_path: Path) -> None:
    group = of_version_2(tmp_path, 7 << 20).begin("w", ALL)
    assert group.folders == (tmp_path / "f" / "w",)
    assert written(tmp_path / "f" / "w") == {
        "memory.oom.group": "1", "memory.max": str(512 << 20), "pids.max": "99", "cpu.max": "300000 100000",
    }  # fmt: skip
    assert written(tmp_path / "f") == {"cgroup.subtree_control": "+cpu +memory +pids", "memory.max": str(7 << 20)}


def test_what_needs_more_memory_is_not_swapped_out(tmp_path: Path) -> None:
    folder = tmp_path / "f" / "w"
    folder.mkdir(parents=True)
    (folder / "memory.swap.max").write_text("max")
    of_version_2(tmp_path).begin("w", ALL)
    assert (folder / "memory.swap.max").read_text().startswith("0")


def test_version_1_has_a_group_for_each_limit(tmp_path: Path) -> None:
    group = of_version_1(tmp_path).begin("w", ALL)
    assert [written(folder) for folder in group.folders] == [
        {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "300000"}, {"memory.limit_in_bytes": str(512 << 20)},
        {"pids.max": "99"},
    ]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_no_limit_is_written_that_nobody_set(tmp_path: Path, version: int) -> None:
    groups = of_version_1(tmp_path) if version == 1 else of_version_2(tmp_path)
    found = [written(folder) for folder in groups.begin("w", Limits()).folders]
    assert found == ([{}] * 3 if version == 1 else [{"memory.oom.group": "1"}])


def test_a_kill_for_lack_of_memory_is_counted_by_both_versions(tmp_path: Path) -> None:
    old, new = of_version_1(tmp_path).begin("w", ALL), of_version_2(tmp_path).begin("w", ALL)
    assert (old.kills(), new.kills(), new.has_reached_its_memory(512)) == (0, 0, False)
    (tmp_path / "m" / "f" / "w" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (tmp_path / "m" / "f" / "w" / "memory.max_usage_in_bytes").write_text(f"{510 << 20}\n")
    (tmp_path / "f" / "w" / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert (old.kills(), new.kills()) == (2, 3)
    assert (old.has_reached_its_memory(512), new.has_reached_its_memory(512)) == (True, True)
    assert not old.has_reached_its_memory(1024)      # then the machine, or all workers together, had too little


def test_version_2_kills_all_at_once_where_the_kernel_can(tmp_path: Path) -> None:
    group = of_version_2(tmp_path).begin("w", ALL)
    (group.folders[0] / "cgroup.kill").write_text("")
    group.kill()
    assert (group.folders[0] / "cgroup.kill").read_text() == "1"
    assert (group.folders[0] / "pids.max").read_text() == "99"


def test_a_group_that_cannot_be_removed_is_not_waited_for_and_the_next_sweep_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(groups_module, "time", clock)
    monkeypatch.setattr(strays_module, "_dead_children", lambda: iter([RUNNER]))
    monkeypatch.setattr(strays_module.proc, "own_children", list)
    folder, kept = tmp_path / "jobs" / "w", tmp_path / "f" / "w" / "a process that cannot be killed"
    for one in (folder, kept.parent):
        one.mkdir(parents=True)
    kept.touch()
    groups = of_version_2(tmp_path)
    strays = Strays(None, groups)
    strays.watch(RUNNER, folder)
    assert strays.reap() == [folder]
    assert clock.now < 1.0, "all launches wait meanwhile"
    strays.sweep()
    assert groups.names() == {"w"}
    kept.unlink()
    strays.sweep()
    assert groups.names() == set()


def test_groups_in_a_group_are_removed_with_it(tmp_path: Path) -> None:
    group = of_version_1(tmp_path).find("w")
    for folder in group.folders:
        (folder / "inner" / "most").mkdir(parents=True)
    assert group.end(0.0)
    assert not any(folder.exists() for folder in group.folders)


def test_memory_that_is_raised_is_raised_with_swap_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses a limit above the one of memory and swap together."""
    group = of_version_1(tmp_path).find("w")
    folder, write = group.by_controller["memory"], Path.write_text
    folder.mkdir(parents=True)
    limit, both = folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"
    both.write_text("067108864")

    def refusing(path: Path, text: str, **more: Any) -> int:
        if path == limit and int(text) > int(both.read_text()):
            raise OSError(errno.EINVAL, "Invalid argument", str(path))
        return write(path, text, **more)

    monkeypatch.setattr(Path, "write_text", refusing)
    group.limit(Limits(memory_mb=512))
    assert (int(limit.read_text()), int(both.read_text())) == (512 << 20, 512 << 20)


def test_a_group_that_is_made_again_between_two_limits_is_limited_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the other workers ends meanwhile, and another one begins: the kernel then compares the second limit
    with the first one of a group that has none."""
    groups, failures = replace(of_version_1(tmp_path), memory_bytes=1 << 40), [1, 1]
    limit_memory = groups_module._limit_memory

    def limited(*args: Any) -> None:
        if failures and failures.pop():
            raise OSError(errno.EINVAL, "Invalid argument")
        limit_memory(*args)

    monkeypatch.setattr(groups_module, "_limit_memory", limited)
    groups.begin("w", Limits())
    assert groups.names() == {"w"}
    failures += [1] * 1000
    with pytest.raises(OSError, match="Invalid argument"):
        groups.begin("another", Limits())
    assert groups.names() == {"w"}


def test_a_group_that_is_made_in_that_of_another_process_has_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the other workers ends meanwhile, and the process that makes the server's group again is killed: with
    version 2 the kernel gives a group no limits before that above it lets it."""
    groups, make = of_version_2(tmp_path, 7 << 20), Path.mkdir

    def make_late(path: Path, *args: Any, **more: Any) -> None:
        if path.name == "w" and not path.exists():
            shutil.rmtree(path.parent)
            make(path.parent)
        make(path, *args, **more)

    monkeypatch.setattr(Path, "mkdir", make_late)
    groups.begin("w", ALL)
    assert written(tmp_path / "f") == {"cgroup.subtree_control": "+cpu +memory +pids", "memory.max": str(7 << 20)}


def test_the_processes_of_a_server_read_what_it_has_found(tmp_path: Path) -> None:
    groups = of_version_2(tmp_path, 9)
    assert Groups.read(tmp_path) is None
    (tmp_path / LIMITS).write_text(groups.to_json())
    assert Groups.read(tmp_path) == groups
    assert groups.names() == set()
    groups.begin("w", ALL)
    assert groups.names() == {"w"}
