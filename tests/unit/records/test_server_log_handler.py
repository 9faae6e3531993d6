"""Where the records of our own modules go."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.records.operator_log.operator_log import OperatorLog
from fate_flow.records.operator_log.server_handler import ServerLogHandler

J = "202107260820309976351"


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[logging.Logger]:
    logger = logging.Logger("fate_flow.services.tick", logging.DEBUG)
    handler = ServerLogHandler(OperatorLog(tmp_path))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def test_a_record_lands_in_the_stat_log_and_the_level_files(logger: logging.Logger, tmp_path: Path) -> None:
    logger.info("FATE Flow http server start, port %s", 9380)
    line = text(tmp_path, "fate_flow/fate_flow_stat.log")
    pattern = (r"\[INFO\] \[[\d-]{10} [\d:]{8},\d{3}\] \[\d+:\d+\] - test_server_log_handler\.py\[line:\d+\]: "
               r"FATE Flow http server start, port 9380\n")
    assert re.fullmatch(pattern, line)
    assert {path.name for path in (tmp_path / "fate_flow").iterdir()} == {
        "fate_flow_stat.log", "DEBUG.log", "INFO.log"}


def test_an_error_brings_its_traceback_and_the_error_file(logger: logging.Logger, tmp_path: Path) -> None:
    try:
        raise ValueError("boom\n[INFO] [2021-07-26 08:20:31,994] [1:1] - a.py[line:1]: forged\x1b")
    except ValueError:
        logger.exception("tick failed")
    lines = text(tmp_path, "fate_flow/fate_flow_stat_error.log").splitlines()
    assert lines[0].endswith("]: tick failed")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-2:] == ["ValueError: boom", " [INFO] [2021-07-26 08:20:31,994] [1:1] - a.py[line:1]: forged\\x1b"]
    assert text(tmp_path, "fate_flow/ERROR.log") == text(tmp_path, "fate_flow/WARNING.log")


def test_what_goes_wrong_with_a_job_is_repeated_with_the_job(logger: logging.Logger, tmp_path: Path) -> None:
    extra = {"job_id": J, "role": "guest", "party_id": "9999"}
    logger.info("fine", extra=extra)
    assert not (tmp_path / J).exists()
    logger.error("lost", extra=extra)
    for name in (f"{J}/fate_flow_schedule.log", f"{J}/fate_flow_schedule_error.log", "fate_flow/ERROR.log"):
        assert text(tmp_path, name).endswith(f"]: lost (job {J}, role guest, party 9999)\n")


def test_a_message_cannot_forge_a_record(logger: logging.Logger, tmp_path: Path) -> None:
    logger.warning("name %s", "a\n[INFO] [x", extra={"job_id": "1\n[INFO] [x"})
    assert text(tmp_path, "fate_flow/fate_flow_stat.log").count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["fate_flow"]


def test_a_message_that_does_not_fit_its_arguments_never_raises(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str],
) -> None:
    logger.error("%d", "no number")
    assert "Logging error" in capsys.readouterr().err


def test_levels_of_others_are_taken_as_the_next_below(logger: logging.Logger, tmp_path: Path) -> None:
    logger.critical("worst")
    logger.log(5, "dropped by the logger")
    logger.log(25, "notice")
    lines = text(tmp_path, "fate_flow/fate_flow_stat.log").splitlines()
    assert [line.split("]")[0] for line in lines] == ["[ERROR", "[INFO"]
