"""What a program has of the environment of its runner, and of the Ray cluster of its party; what a sandbox hides."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from fate_flow.components.providers.program_order import Order
from fate_flow.core.model.program import ProgramRules
from fate_flow.core.model.program_scope import ray_environment
from fate_flow.engines.local.program_preparation import prepare
from fate_flow.engines.local.sandbox import Sandbox

NOBODY = 65534
RAY = {
    "RAY_ADDRESS": "head:6379", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/t", "RAY_AUTH_TOKEN": "t",
    "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
}  # fmt: skip


def prepared(folder: Path, runner: Mapping[str, str], env: Mapping[str, str]) -> Mapping[str, str]:
    order = Order(("/bin/true",), env, ProgramRules(enabled=True, allow=("/bin/true",)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", {"PATH": "/bin", **runner})
        patch.setattr(resource, "setrlimit", lambda *_: None)      # it is for the process that becomes the program
        return prepare(order, folder).env


def test_a_program_has_little_of_its_runner_and_nothing_of_a_ray_that_runs_none_of_its_workers(tmp_path: Path) -> None:
    kept = {"HOME": "/h", "CUDA_VISIBLE_DEVICES": "1"}
    assert prepared(tmp_path, {**kept, "AWS_SECRET": "x", **RAY}, {"A": "b"}) == {"PATH": "/bin", **kept, "A": "b"}


def test_a_program_of_a_job_of_ray_has_what_ray_gives_its_jobs(tmp_path: Path) -> None:
    runner = {**RAY, "FATE_FLOW_RAY_ADDRESS": "head:6379", "RAY_worker_niceness": "0"}
    assert prepared(tmp_path, runner, {}) == {"PATH": "/bin", "FATE_FLOW_RAY_ADDRESS": "head:6379", **RAY}


def test_an_address_of_the_engine_and_one_of_the_job_replace_that_of_ray(tmp_path: Path) -> None:
    runner = {**RAY, "FATE_FLOW_RAY_ADDRESS": "head:6379"}
    found = prepared(tmp_path, runner, {**ray_environment("other:1", "/o"), "RAY_ADDRESS": "local"})
    assert (found["FATE_FLOW_RAY_ADDRESS"], found["RAY_ADDRESS"]) == ("other:1", "local")
    assert found["RAY_AUTH_TOKEN_PATH"] == "/o"


def test_without_an_address_programs_have_no_variable_of_ray() -> None:
    assert ray_environment("", "/t") == {}
    assert ray_environment("head:1") == {"FATE_FLOW_RAY_ADDRESS": "head:1", "RAY_ADDRESS": "head:1"}


def hidden(home: Path) -> list[Path]:
    """Return the folders below the temporary ones that are hidden for a home."""
    sandbox = Sandbox("bwrap", Path("/w"), (home,), (Path("/w/work"),))
    arguments = sandbox.arguments(("x",), Path("/bin/x"), {})
    places = [Path(word) for before, word in pairwise(arguments) if before == "--tmpfs"]
    return [one for one in places if str(one) not in {"/tmp", "/var/tmp", "/run"}]


def test_a_home_is_hidden(tmp_path: Path) -> None:
    assert hidden(tmp_path) == [tmp_path]


def test_a_home_that_is_missing_or_no_folder_needs_no_hiding(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert hidden(tmp_path / "none" / "home") == hidden(tmp_path / "file") == hidden(tmp_path / "file" / "home") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")     # bin/test notes it
def test_the_folder_that_closes_the_way_to_a_home_is_hidden_instead(tmp_path: Path) -> None:
    (tmp_path / "closed" / "home").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    way = (*reversed(tmp_path.parents), tmp_path, tmp_path / "closed")
    os.seteuid(NOBODY)
    try:
        found = hidden(tmp_path / "closed" / "home")
        closed = next(one for one in way if not os.access(one, os.X_OK, effective_ids=True))
    finally:
        os.seteuid(0)
    assert found == [closed]
