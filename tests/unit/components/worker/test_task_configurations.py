"""A worker gets every value as the job has it, whoever has written its task configuration again on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fate_flow.components.provider_process import execute, task_files
from fate_flow.core.text.yaml_text import yaml_text
from fate_flow.engines.local.program_user import CONFIG_VARIABLE, ProgramUser, copy_inputs, hand_over
from fate_flow.engines.placed.way import lead_to
from fate_flow.engines.staged.documents import There, staged
from tests.kit.engines.staged_host import StagedServer
from tests.kit.jobspec.hard_for_yaml import HARD_FOR_YAML

_CONFIG = "config.yaml"
_NO_MODULE = "fate_flow_has_no_such_module"


def of_the_server(folder: Path) -> Path:
    return folder / _CONFIG


def in_a_sandbox(folder: Path) -> Path:
    return Path(copy_inputs(folder)[CONFIG_VARIABLE])


def of_another_user(folder: Path) -> Path:
    """The user of the tests, who may give files to itself."""
    folder.parent.chmod(0o711)          # so that no folder above it is opened
    user = ProgramUser("tests", os.geteuid(), os.getegid())
    return Path(hand_over(user, folder, folder / "work", folder / "volumes")[CONFIG_VARIABLE])


def on_a_node(folder: Path) -> Path:
    lead_to(folder, 5000)
    return folder / _CONFIG


def on_another_host(folder: Path) -> Path:
    home = next(one.parent for one in folder.parents if one.name == "jobs")
    documents = staged(folder, home, There("/there", "http://127.0.0.1:5000/v1/exchange", "/package")).documents
    (folder / "there.yaml").write_text(documents[f"{folder.relative_to(home)}/{_CONFIG}"], encoding="utf-8")
    return folder / "there.yaml"


def of_a_provider(folder: Path) -> Path:
    argv = [sys.executable, "-I", execute.__file__, _NO_MODULE, str(folder / _CONFIG), str(folder / "result.json")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert f"{_NO_MODULE} is no module" in done.stderr, "the component is looked for when all is written"
    return folder / task_files.CONFIG


@pytest.mark.parametrize(
    "path", [of_the_server, in_a_sandbox, of_another_user, on_a_node, on_another_host, of_a_provider]
)
def test_a_reader_of_yaml_gets_every_parameter_as_the_job_has_it(tmp_path: Path, path: Callable[[Path], Path]) -> None:
    server = StagedServer(tmp_path / "home")
    server.orders("w0", "SecureSum", HARD_FOR_YAML)
    found = yaml.safe_load(path(server.folder("w0")).read_text(encoding="utf-8"))
    assert yaml_text(found["parameters"]) == yaml_text(HARD_FOR_YAML), json.dumps(found["parameters"])[:500]
