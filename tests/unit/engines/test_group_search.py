"""Which groups with limits a server finds at its start, by what the kernel says of this process and of its mounts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fate_flow.engines.local import groups as groups_module
from fate_flow.engines.local.group_search import AUTO, NONE, SERVER_LEAF, find_groups, own_groups
from fate_flow.engines.local.groups import Groups


def proc_of(tmp_path: Path, cgroup: str, mounts: str) -> Path:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mounts)
    return proc


def mounted(kind: str, folder: Path, options: str = "rw", root: str = "/") -> str:
    escaped = str(folder).replace(" ", "\\040")         # as the kernel does
    return f"32 31 0:29 {root} {escaped} rw,relatime - {kind} {kind} {options}\n"


def group_of_version_2(folder: Path, processes: str = "", controllers: str = "cpuset cpu io memory pids") -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(f"{controllers}\n")
    (folder / "cgroup.subtree_control").write_text("\n")
    (folder / "cgroup.procs").write_text(processes)
    return folder


def test_of_version_1_there_is_a_tree_for_each_limit(tmp_path: Path) -> None:
    trees = {name: tmp_path / name for name in ("memory", "pids", "cpu,cpuacct")}
    for folder in (trees["memory"] / "a" / "b", trees["pids"], trees["cpu,cpuacct"]):
        folder.mkdir(parents=True)
    mounts = "".join(mounted("cgroup", folder, f"rw,{name}") for name, folder in trees.items())
    mounts += mounted("cgroup2", tmp_path / "unified") + mounted("cgroup", tmp_path / "x", "rw,name=systemd")
    text = "9:name=systemd:/\n8:pids:/\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/\n"
    proc = proc_of(tmp_path, text, mounts)
    expected = {"memory": str(tmp_path / "memory" / "a" / "b"), "pids": str(tmp_path / "pids"),
                "cpu": str(tmp_path / "cpu,cpuacct")}
    assert own_groups("f", 7, proc) == Groups(1, expected, "f", 7)


def test_in_a_container_what_is_mounted_is_its_own_group(tmp_path: Path) -> None:
    mounts = "".join(
        mounted("cgroup", tmp_path / name, f"rw,{name}", "/docker/77") for name in ("memory", "pids")
    )
    for name in ("memory", "pids"):
        (tmp_path / name).mkdir()
    proc = proc_of(tmp_path, "8:pids:/docker/77\n4:memory:/elsewhere\n", mounts)
    expected = {"memory": str(tmp_path / "memory"), "pids": str(tmp_path / "pids")}
    assert own_groups("f", 0, proc) == Groups(1, expected, "f")


def test_a_service_with_its_own_group_of_version_2_moves_itself_below_it(tmp_path: Path) -> None:
    unit = group_of_version_2(tmp_path / "tree" / "system.slice" / "fate_flow.service", f"{os.getpid()}\n")
    (unit / SERVER_LEAF).mkdir()
    proc = proc_of(tmp_path, "0::/system.slice/fate_flow.service\n", mounted("cgroup2", tmp_path / "tree"))
    found = own_groups("f", 0, proc)
    assert found == Groups(2, dict.fromkeys(("cpu", "memory", "pids"), str(unit)), "f")
    assert (unit / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (unit / SERVER_LEAF / "cgroup.procs").read_text() == str(os.getpid())


def test_a_service_that_begins_below_its_own_group_stays_there(tmp_path: Path) -> None:
    """As with `DelegateSubgroup`: systemd has given the controllers to the group of the unit, and nobody further."""
    unit = group_of_version_2(tmp_path / "tree" / "system.slice" / "fate_flow.service")
    group_of_version_2(unit / SERVER_LEAF, f"{os.getpid()}\n", controllers="")
    path = f"/system.slice/fate_flow.service/{SERVER_LEAF}"
    proc = proc_of(tmp_path, f"0::{path}\n", mounted("cgroup2", tmp_path / "tree"))
    assert own_groups("f", 0, proc) == Groups(2, dict.fromkeys(("cpu", "memory", "pids"), str(unit)), "f")
    assert (unit / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


@pytest.mark.parametrize(("group", "variable", "is_said"), [
    ("fate_flow.service", "INVOCATION_ID", True),
    ("fate_flow.service", "SHELL", False),                                # nobody starts it there again
    (f"fate_flow.service/{SERVER_LEAF}", "INVOCATION_ID", False),
])  # fmt: skip
def test_a_service_that_cannot_be_started_again_beside_its_workers_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, variable: str, is_said: bool
) -> None:
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    monkeypatch.setenv(variable, "ab" * 16)
    monkeypatch.setattr(groups_module.Group, "end", lambda _group: True)
    group_of_version_2(tmp_path / "tree" / "fate_flow.service", f"{os.getpid()}\n")
    group_of_version_2(tmp_path / "tree" / "fate_flow.service" / SERVER_LEAF)
    proc = proc_of(tmp_path, f"0::/{group}\n", mounted("cgroup2", tmp_path / "tree"))
    found = find_groups(AUTO, "f", 0, proc)
    assert found.groups is not None
    assert ("DelegateSubgroup=fate_flow-server" in found.note) == is_said


def test_a_server_in_a_group_with_others_needs_delegation_unless_it_is_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = group_of_version_2(tmp_path / "tree" / "session", f"1\n{os.getpid()}\n")
    (tmp_path / "tree" / "cgroup.controllers").write_text("memory pids\n")
    (tmp_path / "tree" / "cgroup.subtree_control").write_text("memory pids\n")
    proc = proc_of(tmp_path, "0::/session\n", mounted("cgroup2", tmp_path / "tree"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = find_groups(AUTO, "f", 0, proc)
    assert found.groups is None
    assert found.why_not == (
        f"this server may not make cgroups: {session}: it has other processes than this server (systemd: Delegate=yes)"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert own_groups("f", 0, proc) == Groups(2, dict.fromkeys(("memory", "pids"), str(tmp_path / "tree")), "f")


@pytest.mark.parametrize(("cgroup", "controllers"), [("0::/x\n", "cpu"), ("0::/x\n", ""), ("", "memory pids")])
def test_without_controllers_there_is_no_group(tmp_path: Path, cgroup: str, controllers: str) -> None:
    """As on a machine whose version 2 is only there for systemd, or in a container without cgroups."""
    group_of_version_2(tmp_path / "tree" / "x", controllers=controllers)
    proc = proc_of(tmp_path, cgroup, mounted("cgroup2", tmp_path / "tree"))
    found = find_groups(AUTO, "f", 0, proc)
    assert (found.groups, found.why_not) == (None, "this machine has no cgroups with the controllers memory and pids")


def test_a_path_that_is_no_group_is_named(tmp_path: Path) -> None:
    found = find_groups(str(tmp_path / "none"), "f", 0)
    missing = tmp_path / "none" / "cgroup.controllers"
    assert found.why_not == f"this server may not make cgroups: {missing}: No such file or directory"
    assert find_groups(NONE, "f", 0).groups is None
