"""Tables on lines of so many letters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from fate_flow.cli.console.table_layout import lay_out, wrap

HEADERS = ("job", "name", "party", "status", "took", "why")
ID = "2026112209550633068000871"
WHY = "a_total failed on guest 9999: table 'x' has no column 'nope'"
ROWS = [
    (ID, "monthly totals", "guest-9999", "failed", "", WHY),
    (ID, "", "local-0", "success", "", ""),
]


def lines(width, rows=ROWS, headers=HEADERS):
    found = lay_out(headers, rows, width)
    return [*found.head, *found.body]


def test_without_a_limit_a_row_is_a_line():
    assert lines(None) == [
        "job                         name             party        status    took   why",
        f"{ID}   monthly totals   guest-9999   failed           {WHY}",
        f"{ID}                    local-0      success",
    ]


def test_the_text_is_broken_between_words_when_there_is_space_beside_it():
    assert lines(100) == [
        "job                        name            party       status   why",
        f"{ID}  monthly totals  guest-9999  failed   a_total failed on guest 9999: table",
        " " * 64 + "'x' has no column 'nope'",
        f"{ID}                  local-0     success",
    ]


def test_the_text_stands_below_its_row_when_there_is_none_and_no_other_word_is_broken():
    assert lines(78) == [
        "job                        name            party       status",
        f"{ID}  monthly totals  guest-9999  failed",
        f"    {WHY}",
        f"{ID}                  local-0     success",
    ]


def test_the_text_stands_below_its_row_where_the_table_gets_shorter_by_it():
    rows = [(ID, "monthly totals", "guest-9999", "failed", "", f"{WHY} nor 'that' in any of them")]
    assert lines(100, rows) == [
        "job                        name            party       status",
        f"{ID}  monthly totals  guest-9999  failed",
        f"    {WHY} nor 'that' in any of them",
    ]


def test_other_columns_are_broken_between_words_where_they_have_to_be():
    assert lines(60) == [
        "job                        name          party       status",
        f"{ID}  monthly       guest-9999  failed",
        "                           totals",
        "    a_total failed on guest 9999: table 'x' has no column",
        "    'nope'",
        f"{ID}                local-0     success",
    ]


@pytest.mark.parametrize("width", [1, 8, 20, 40, 79, 80, 81, 120, 300])
@pytest.mark.parametrize("rows", [[], ROWS, [(ID, "x" * 200, "y", "z", "", "w" * 200)], [("名" * 30,) * 6]])
def test_no_letter_is_lost_and_no_line_is_wider_than_it_may_be_but_for_the_first_column(width, rows):
    found = lines(width, rows)
    letters = "".join("".join(found).split())
    for row in rows:
        assert sorted(letters).count("x") >= "".join(row).count("x")
        assert all(word[:1] in letters for cell in row for word in cell.split())
    least = max([len(ID), *(cell_len(row[0]) for row in rows)]) + 5 * 8
    assert max(map(cell_len, found)) <= max(width, least)


def test_a_long_word_is_broken_where_the_line_ends():
    assert wrap("see 0123456789abc now", 5) == ["see", "01234", "56789", "abc", "now"]
    assert wrap("", 5) == [""]
    assert wrap("01234567", 5) == ["01234", "567"]
