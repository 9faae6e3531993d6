"""Lines of the database log have Python's own text for a statement and its values, whatever was shown before."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.records.operator_log import operator_log
from fate_flow.records.operator_log.operator_log import OperatorLog

_LONG = 'SELECT "f_name" FROM "t_job" WHERE "f_name" = ?' + ' AND "f_name" <> ?' * 20 + "\n-- 'quoted'"


@pytest.mark.parametrize("statement", ['SAVEPOINT part_1', _LONG])
def test_a_line_shows_the_statement_and_its_values(statement: str, tmp_path: Path) -> None:
    log = OperatorLog(tmp_path)
    for params in (["a\nb", 1], None, ("it's",)):
        log.database(statement, params)
    log.close()
    lines = (tmp_path / "fate_flow" / "peewee.log").read_text(encoding="utf-8").splitlines()
    shown = [line.partition("]: ")[2] for line in lines]
    assert shown == [str((statement, values)) for values in (["a\nb", 1], [], ["it's"])]


def test_texts_of_ever_new_statements_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_log, "_MOST_STATEMENTS", 3)
    monkeypatch.setattr(operator_log, "_shown_statements", {})
    log = OperatorLog(tmp_path)
    for number in range(10):
        log.database(f"{_LONG} {number}")
        assert len(operator_log._shown_statements) <= 3
    log.close()
