"""The logging configuration of a worker, used as a worker uses it: in a process of its own, without us."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fate_flow.records.operator_log.worker_config import worker_log_folders, worker_logging_config

SCRIPT = """
import json, logging.config, sys
logging.config.dictConfig(json.loads(sys.argv[1]))
log = logging.getLogger("fate.component")
log.debug("fine grain")
log.info("caf\\u00e9 \\ud800")
log.error("broken")
assert not any(name.startswith("fate_flow") for name in sys.modules)
"""
WHO = ("202107260820309976351", "guest", "9999", "intersection_0")


def run(root: Path, level: str) -> Path:
    for folder in worker_log_folders(*WHO, root):
        folder.mkdir(parents=True, exist_ok=True)
    config = json.dumps(worker_logging_config(*WHO, root, level))
    subprocess.run([sys.executable, "-c", SCRIPT, config], check=True, timeout=180, cwd=root)
    return root / "/".join(WHO[:3])


def text(path: Path) -> list[str]:
    return [line.split("]: ", 1)[1] for line in path.read_text(encoding="utf-8").splitlines()]


def test_component_and_party_get_every_level_and_all_above(tmp_path: Path) -> None:
    party = run(tmp_path, "DEBUG")
    everything = ["fine grain", "caf\u00e9 \\ud800", "broken"]
    for folder in (party, party / WHO[3]):
        assert text(folder / "DEBUG.log") == everything
        assert text(folder / "INFO.log") == everything[1:]
        assert text(folder / "WARNING.log") == everything[2:]
        assert text(folder / "ERROR.log") == everything[2:]
    assert text(party / WHO[3] / "stat.log") == everything
    assert not (party / "stat.log").exists()


def test_the_lines_are_those_of_1_6(tmp_path: Path) -> None:
    party = run(tmp_path, "INFO")
    line = (party / "ERROR.log").read_text(encoding="utf-8")
    assert re.fullmatch(r"\[ERROR\] \[[\d-]{10} [\d:]{8},\d{3}\] \[\d+:\d+\] - <string>\[line:\d+\]: broken\n", line)


def test_without_debug_there_is_no_debug_file(tmp_path: Path) -> None:
    party = run(tmp_path, "INFO")
    assert not list(party.rglob("DEBUG.log"))
    assert text(party / WHO[3] / "stat.log") == ["caf\u00e9 \\ud800", "broken"]


def test_components_of_a_party_share_its_files(tmp_path: Path) -> None:
    run(tmp_path, "INFO")
    party = run(tmp_path, "INFO")
    assert text(party / "ERROR.log") == ["broken", "broken"]


@pytest.mark.parametrize("component", ["", "..", "a/b"])
def test_a_name_that_leaves_the_folder_is_refused(component: str) -> None:
    with pytest.raises(ValueError, match="cannot name a log folder"):
        worker_logging_config("1", "guest", "9999", component, Path("/logs"))
