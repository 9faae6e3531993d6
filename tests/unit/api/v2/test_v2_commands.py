"""docs/reference/compatibility.md has every command of fate_client 2.2, and agrees with its tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fate_flow.api.v2.envelope import RESTRICTED
from tests.heavy.fate_client_2.lines import CASES, LINES

CHECKOUT = Path(__file__).parents[4]
TABLE = CHECKOUT / "docs" / "reference" / "compatibility.md"
HOWS = ("works", "differs", "not offered")
REFUSED = (RESTRICTED, 6000)


def rows() -> dict[str, list[str]]:
    """The cells of the table, by their first one."""
    text = TABLE.read_text(encoding="utf-8").partition("## Commands of `fate_client` 2.2")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:3] == "| `"]
    found = {row[0].strip("` "): row for row in cells}
    assert len(found) == len(cells), "a line stands there twice"
    return found


def test_the_table_has_every_command() -> None:
    assert list(rows()) == list(LINES)


@pytest.mark.parametrize("line", LINES)
def test_each_row_says_how_it_is_and_names_a_test_that_exists(line: str) -> None:
    command, how, remark, test = rows()[line]
    assert how in HOWS
    assert remark or how == "works", f"{command}: how does it differ, or what is there instead?"
    file, name = re.fullmatch(r"`(\S+\.py)::(\w+)`", test).groups()      # type: ignore[union-attr]
    assert f"def {name}(" in (CHECKOUT / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("line", sorted({case.line for case in CASES}))
def test_the_table_and_the_tests_agree_on_what_is_not_offered(line: str) -> None:
    has_success = any(case.code == 0 for case in CASES if case.line == line)
    assert has_success == (rows()[line][1] != "not offered")
    assert has_success or {case.code for case in CASES if case.line == line} <= {*REFUSED}
