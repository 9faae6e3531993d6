"""SecureSum and the shares below it: the total is right, and nothing else is told."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.builtin import secure_sum
from fate_flow.components.builtin.secure_sum import scaled_sum
from fate_flow.components.builtin.shares import MODULUS, joined, pack, signed, split, unpack
from fate_flow.components.tables.table import Table
from tests.kit.components.memory_channel import GUEST, HOSTS, a_table, run_everywhere

HALF = MODULUS // 2


@given(st.integers(-HALF, HALF - 1), st.integers(1, 5))
def test_shares_add_up_to_the_value(value, parts):
    shares = split(value % MODULUS, parts)
    assert len(shares) == parts
    assert signed(joined(shares)) == value
    assert unpack(pack(shares)) == shares


def test_shares_are_new_each_time():
    assert split(5, 2) != split(5, 2)


@given(st.lists(st.decimals(-(10**9), 10**9, places=2)))
def test_a_column_is_added_up_exactly(values):
    assert scaled_sum([str(value) for value in values], 2) == int(sum(values, Decimal(0)) * 100)


@pytest.mark.parametrize(("values", "precision", "total"), [
    ([], 2, 0),
    (["0.1"] * 10, 2, 100),
    (["0.005", "0.005"], 2, 1),
    (["-1.5", "+2", ".5", "1.", "1e2"], 1, 1020),
    (["99999999999999999999999999999", "0.01"], 2, 9999999999999999999999999999901),
    (["2.5"], 0, 2),
])
def test_it_is_rounded_once_at_the_end(values, precision, total):
    assert scaled_sum(values, precision) == total


@pytest.mark.parametrize("value", ["", "secret", "nan", "inf", "1_000", "1,5", "0x10", "٣", "1 ", "1e9999"])
def test_what_is_no_number_is_told_by_row_alone(value):
    with pytest.raises(ComponentError) as error:
        scaled_sum(["1", value, "2"], 2)
    assert error.value.message == "row 2 of the input holds something that is not a number"


def test_a_number_that_cannot_be_added_exactly_is_told_by_row():
    with pytest.raises(ComponentError, match="row 2 of the input holds a number with too many digits"):
        scaled_sum(["1e500", "0.01"], 2)


def sum_up(tmp_path, columns, precision=None):
    parties = (GUEST, *HOSTS)[:len(columns)]
    inputs, parameters = {}, {}
    for party, values in zip(parties, columns, strict=True):
        rows = [(str(number), value) for number, value in enumerate(values)]
        inputs[party] = a_table(tmp_path, f"{party.role}{party.party_id}", rows, [f"x{party.party_id}"])
        parameters[party] = {"column": f"x{party.party_id}", "precision": precision}
    return run_everywhere(secure_sum.run, "secure_sum", inputs, tmp_path, parameters)


@pytest.mark.parametrize(("columns", "precision", "total"), [
    ((["1", "2"], ["3"]), None, "6.00"),
    ((["1.25", "-7"], ["0.5"], ["-100"]), None, "-105.25"),
    ((["0.001"], ["0.002"], ["-0.003"], ["5"]), 3, "5.000"),
    (([], ["7"]), 0, "7"),
    ((["-3"], ["3"]), 0, "0"),
])
def test_every_party_has_the_total(tmp_path, columns, precision, total):
    outcomes, _ = sum_up(tmp_path, columns, precision)
    for outcome in outcomes.values():
        assert outcome.summary == {"total": total}
        assert [(one.name, one.data) for one in outcome.metrics] == [("secure_sum", [("total", total)])]
        assert list(Table(outcome.tables["data"])) == [("total", total)]


def test_no_message_tells_the_sum_of_a_party(tmp_path):
    columns = (["11", "11"], ["33"], ["-44.5"])
    _, exchange = sum_up(tmp_path, columns)
    own = {scaled_sum(values, 2) for values in columns}
    crossed = {signed(unpack(letter.message[1:])[0]) for letter in exchange.letters}
    assert len(exchange.letters) == 12
    assert len(crossed) == 9, "a random share for each pair, and one partial sum of each party"
    assert not own & crossed
    assert not {letter.message for letter in exchange.letters} & {str(value).encode() for value in own}


def test_a_sum_that_might_overflow_is_refused(tmp_path):
    with pytest.raises(ComponentError, match="the sum of the column is too large"):
        sum_up(tmp_path, (["1e37"], ["1e37"]))


def test_parties_that_do_not_agree_on_the_decimals_are_told(tmp_path):
    inputs = {party: a_table(tmp_path, party.role, [("a", "1")], ["x"]) for party in (GUEST, HOSTS[0])}
    parameters = {GUEST: {"column": "x", "precision": 1}, HOSTS[0]: {"column": "x", "precision": 3}}
    with pytest.raises(ComponentError, match="precision: host 10000 has 3 decimals, this party 1"):
        run_everywhere(secure_sum.run, "secure_sum", inputs, tmp_path, parameters)


def test_a_column_that_is_not_there_is_named(tmp_path):
    inputs = {GUEST: a_table(tmp_path, "g", [("a", "1")], ["x"])}
    with pytest.raises(ComponentError, match="the table has no column 'y'"):
        run_everywhere(secure_sum.run, "secure_sum", inputs, tmp_path, {GUEST: {"column": "y"}})
