"""SecureAddExample: what `flow test toy` runs."""

from __future__ import annotations

import pytest

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.builtin import secure_add_example
from fate_flow.components.builtin.secure_add_example import secure_add_guest, secure_add_host
from fate_flow.components.builtin.shares import pack, unpack
from tests.kit.components.memory_channel import GUEST, HOSTS, MemoryExchange, a_task, side_by_side

HOST = HOSTS[0]


def run_toy(guest_parameters, host_parameters, parties=(GUEST, HOST)):
    exchange = MemoryExchange()
    given = {GUEST: guest_parameters, HOST: host_parameters}

    def part(me):
        task = a_task(
            "secure_add_example", me, parties, parameters=given[me], open_channel=lambda: exchange.channel_of(me)
        )
        return lambda: secure_add_example.run(task)

    return side_by_side({party: part(party) for party in (GUEST, HOST)}), exchange


def test_the_guest_finds_the_sum_and_says_so_where_the_client_looks(caplog):
    with caplog.at_level("INFO"):
        outcomes, _ = run_toy({"data_num": 50, "partition": 4, "seed": 7}, {"data_num": 50, "partition": 4})
    lines = [record.getMessage() for record in caplog.records if "secure_add_guest" in record.getMessage()]
    assert lines[-1] == "secure_add_guest: success to calculate secure_sum, it is 100"
    assert {record.funcName for record in caplog.records} == {"secure_add_guest", "secure_add_host"}
    assert outcomes[GUEST].summary == {"secure_sum": 100}


def test_a_thousand_ones_are_the_default():
    outcomes, _ = run_toy({}, {})
    assert outcomes[GUEST].summary == {"secure_sum": 2000}


def test_what_crosses_is_random():
    _, exchange = run_toy({}, {})
    shares = [share for letter in exchange.letters for share in unpack(letter.message)]
    assert len(set(shares)) == 2001
    assert not {0, 1, 1000, 2000} & set(shares)


def test_parties_that_do_not_agree_on_the_number_are_told():
    with pytest.raises(ComponentError, match="data_num: host 10000 has 3 numbers, this party 2"):
        run_toy({"data_num": 2}, {"data_num": 3})


def test_a_sum_that_is_wrong_is_an_error():
    exchange = MemoryExchange()
    host = exchange.channel_of(HOST)
    host.push("add.share", GUEST, pack([5, 6]))
    host.push("add.host_sum", GUEST, pack([7]))
    with pytest.raises(ComponentError, match=r"the sum is -?\d+, 4 was expected"):
        secure_add_guest([1, 1], HOST, exchange.channel_of(GUEST))


def test_a_message_of_another_shape_names_its_sender():
    exchange = MemoryExchange()
    exchange.channel_of(GUEST).push("add.share", HOST, b"abc")
    with pytest.raises(ComponentError, match="guest 9999 sent a message"):
        secure_add_host([1], GUEST, exchange.channel_of(HOST))


def test_three_parties_are_refused():
    with pytest.raises(ComponentError, match="exactly one guest and one host, not 1 and 2"):
        run_toy({}, {}, parties=(GUEST, *HOSTS[:2]))
