"""What is written into the files of a group: a plain folder stands for the tree of the kernel here."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.engines.local.groups import LIMITS, Groups, Limits

ALL = Limits(cores=3, memory_mb=512, processes=99)


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


def test_the_processes_of_a_server_read_what_it_has_found(tmp_path: Path) -> None:
    groups = of_version_2(tmp_path, 9)
    assert Groups.read(tmp_path) is None
    (tmp_path / LIMITS).write_text(groups.to_json())
    assert Groups.read(tmp_path) == groups
    assert groups.names() == set()
    groups.begin("w", ALL)
    assert groups.names() == {"w"}
