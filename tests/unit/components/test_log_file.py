"""A component does not notice what becomes of its log files."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from fate_flow.components.base.log_file import LastingFileHandler, with_lasting_files
from fate_flow.records.operator_log.worker_config import worker_log_folders, worker_logging_config

WHO = ("202607260820309976351", "guest", "9999", "upload_0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "job" / "upload_0" / "INFO.log"


@pytest.fixture
def log(path: Path) -> Iterator[logging.Logger]:
    log = logging.Logger("component", logging.INFO)
    handler = LastingFileHandler(path, encoding="utf-8", delay=True)
    log.addHandler(handler)
    yield log
    handler.close()


def remove_file(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    rmtree(path.parent)


def remove_all(path: Path) -> None:
    rmtree(path.parents[1])


@pytest.mark.parametrize("remove", [remove_file, remove_folder, remove_all])
def test_what_was_removed_is_made_again(
    log: logging.Logger, path: Path, remove: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    log.info("one")
    remove(path)
    log.info("two")
    log.info("three")
    assert path.read_text().splitlines() == ["two", "three"]
    assert capsys.readouterr().err == ""


def put_in_the_way(path: Path) -> None:
    """A file where the folder was: neither can be opened or made."""
    rmtree(path.parent)
    path.parent.write_text("in the way")


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_folder_that_cannot_be_made_is_told_once_and_the_component_goes_on(
    log: logging.Logger, path: Path, is_begun: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_begun:
        log.info("one")
    path.parent.mkdir(parents=True, exist_ok=True)
    put_in_the_way(path)
    for text in ("two", "three"):
        log.info(text)
    assert capsys.readouterr().err.count("Logging error") == 1
    path.parent.unlink()
    log.info("four")
    assert path.read_text() == "four\n"


def test_a_full_disk_does_not_stop_it_either(
    log: logging.Logger, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path.parent.mkdir(parents=True)
    [handler] = log.handlers
    with monkeypatch.context() as patched:
        patched.setattr(handler, "baseFilename", "/dev/full")
        for text in ("one", "two"):
            log.info(text)
    assert capsys.readouterr().err.count("No space left on device") == 1
    log.info("three")
    assert path.read_text() == "three\n"


def test_a_line_that_cannot_be_formatted_is_told_each_time(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        log.info("%d", "no number")
    assert capsys.readouterr().err.count("Logging error") == 2


SCRIPT = """
import json, logging.config, shutil, sys
from fate_flow.components.base.log_file import with_lasting_files
logging.config.dictConfig(with_lasting_files(json.loads(sys.argv[1])))
log = logging.getLogger("fate.component")
log.error("before")
shutil.rmtree(sys.argv[2])
log.error("after")
"""


def test_all_files_of_a_worker_are_such(tmp_path: Path) -> None:
    config = json.dumps(worker_logging_config(*WHO, tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, config, str(tmp_path / WHO[0])], check=True, timeout=180, capture_output=True
    )
    assert done.stderr == b""
    party, own = worker_log_folders(*WHO, tmp_path)
    for folder in (party, own):
        [line] = (folder / "ERROR.log").read_text().splitlines()
        assert line.endswith("after")


def test_other_handlers_stay_as_they_are() -> None:
    config = {"version": 1, "handlers": {"a": {"class": "logging.FileHandler", "filename": "x"}}, "root": {}}
    assert with_lasting_files(config) == config
