"""Intersection tells each party what its parameters allow, and no more."""

from __future__ import annotations

import private_set_intersection.python as psi
import pytest

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.builtin import intersection
from fate_flow.components.builtin.intersection import BLOCK, count_as_guest, meet_as_host
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.components.tables.table import Table
from tests.kit.components.memory_channel import GUEST, HOSTS, MemoryExchange, a_table, run_everywhere, side_by_side

HOST = HOSTS[0]
INFO = CATALOGUE["Intersection"]
ROWS = {GUEST: [("c", "1"), ("b", "2"), ("a", "3"), ("x", "4")], HOST: [("a", "5"), ("b", "6"), ("z", "7")]}


def run(tmp_path, **parameters):
    inputs = {party: a_table(tmp_path, party.role, rows, ["y"]) for party, rows in ROWS.items()}
    return run_everywhere(intersection.run, "intersection", inputs, tmp_path, dict.fromkeys(inputs, parameters))


def test_ids_that_are_not_synced_stay_with_the_guest(tmp_path):
    outcomes, exchange = run(tmp_path, sync_intersect_ids=False)
    assert list(Table(outcomes[GUEST].tables["data"])) == [("a", "3"), ("b", "2")]
    assert not outcomes[HOST].tables
    assert not outcomes[HOST].metrics
    assert not outcomes[HOST].summary
    assert {letter.topic for letter in exchange.received_by(HOST)} == {"psi.request"}


@pytest.mark.parametrize(("is_synced", "host_learns"), [
    (False, {}),
    (True, {"intersect_count": 2, "intersect_rate": 2 / 3}),
])
def test_only_a_number_is_found_where_only_a_number_is_asked_for(tmp_path, is_synced, host_learns):
    outcomes, exchange = run(tmp_path, cardinality_only=True, sync_cardinality=is_synced)
    assert not any(outcome.tables for outcome in outcomes.values())
    assert outcomes[GUEST].summary == {"intersect_count": 2, "intersect_rate": 0.5}
    assert outcomes[HOST].summary == host_learns
    assert bool(outcomes[HOST].metrics) == is_synced
    assert {letter.topic for letter in exchange.received_by(HOST)} <= {"psi.request", "count"}


@pytest.mark.parametrize("sets", [([], []), (["a"], []), (["a"], ["a"]), (list("abcdefgh"), list("defghijk"))])
def test_a_count_is_right_for_any_sets(sets):
    exchange = MemoryExchange()
    found = side_by_side({
        GUEST: lambda: count_as_guest(sets[0], HOST, exchange.channel_of(GUEST), True),
        HOST: lambda: intersection.count_as_host(sets[1], GUEST, exchange.channel_of(HOST), True),
    })
    assert set(found.values()) == {len(set(sets[0]) & set(sets[1]))}


def test_the_order_of_an_answer_to_count_tells_nothing():
    """The host answers in an order of its own: sorted, not as it was asked."""
    exchange, ids = MemoryExchange(), [str(number) for number in range(3 * BLOCK)]
    side_by_side({
        GUEST: lambda: count_as_guest(ids, HOST, exchange.channel_of(GUEST), False),
        HOST: lambda: intersection.count_as_host(ids, GUEST, exchange.channel_of(HOST), False),
    })
    (answer,) = [letter.message for letter in exchange.letters if letter.topic == "psi.answer"]
    points = list(psi.Response.FromString(answer).encrypted_elements)
    assert points == sorted(points)


def test_a_host_that_tells_a_number_only_answers_no_request_for_ids():
    exchange = MemoryExchange()
    client = psi.client.CreateWithNewKey(True)
    exchange.channel_of(GUEST).push("psi.request", HOST, client.CreateRequest(["=a"]).SerializeToString())
    with pytest.raises(ExchangeError, match="guest 9999 sent"):
        intersection.count_as_host(["a"], GUEST, exchange.channel_of(HOST), False)


def test_a_host_that_tells_ids_ends_with_an_error_when_it_is_asked_for_a_number():
    exchange = MemoryExchange()
    client = psi.client.CreateWithNewKey(False)
    exchange.channel_of(GUEST).push("psi.request", HOST, client.CreateRequest(["=a"]).SerializeToString())
    with pytest.raises(ExchangeError, match="guest 9999 sent"):
        meet_as_host(["a"], GUEST, exchange.channel_of(HOST))


def test_the_output_has_ids_alone_where_that_is_asked_for(tmp_path):
    outcomes, _ = run(tmp_path, only_output_key=True)
    for outcome in outcomes.values():
        with Table(outcome.tables["data"]) as table:
            assert list(table) == [("a",), ("b",)]
            assert table.schema.header == ()


def test_more_than_one_host_is_not_counted_with(tmp_path):
    inputs = {party: a_table(tmp_path, party.party_id, [("a",)]) for party in (GUEST, *HOSTS[:2])}
    described = {party: {"cardinality_only": True} for party in inputs}
    with pytest.raises(ComponentError, match="works with one host, not with 2"):
        run_everywhere(intersection.run, "intersection", inputs, tmp_path, described)


@pytest.mark.parametrize("parameters", [
    {"join_method": "left_join"}, {"new_sample_id": True}, {"repeated_id_process": 1}, {"with_sample_id": True},
    {"sample_id_generator": "arbiter"}, {"cardinality_only": "yes"}, {"sync_intersect_ids": "False"},
    {"allow_info_share": True}, {"cardinality_method": "rsa"},
])
def test_what_is_not_followed_is_refused(parameters):
    (problem,) = INFO.check(parameters, "guest")
    assert problem.startswith(f"{next(iter(parameters))}: ")


def test_the_defaults_of_fate_are_taken():
    described = {
        "cardinality_only": False, "sync_cardinality": False, "sync_intersect_ids": True, "only_output_key": False,
        "join_method": "inner_join", "new_sample_id": False, "sample_id_generator": "guest",
        "repeated_id_process": False, "repeated_id_owner": "guest", "with_sample_id": False,
        "cardinality_method": "ecdh", "allow_info_share": False,
    }  # fmt: skip
    assert not INFO.check(described, "guest")
    assert not INFO.warnings(described)


def test_all_parties_follow_the_same_protocol():
    problems = INFO.check_all({GUEST: {}, HOST: {"sync_intersect_ids": False}})
    assert problems == [
        "sync_intersect_ids: host 10000 has false, others have not; it has to be the same everywhere"
    ]
    (problem,) = INFO.check_all({party: {"cardinality_only": True} for party in (GUEST, *HOSTS[:2])})
    assert problem.startswith("cardinality_only: works with one host, not with 2")
    assert not INFO.check_all({GUEST: {"cardinality_only": False}, HOST: {"cardinality_only": 0}})
