"""Intersection: everybody finds what all hold, and nobody anything else."""

from __future__ import annotations

import hashlib

import private_set_intersection.python as psi
import pytest

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.builtin import intersection
from fate_flow.components.builtin.intersection import BLOCK, meet_as_guest, meet_as_host
from fate_flow.components.tables.table import Table
from tests.kit.components.memory_channel import GUEST, HOSTS, MemoryExchange, a_table, run_everywhere, side_by_side


def meet(guest_ids, *host_ids, threads=2):
    """What each party found, and all that crossed."""
    exchange = MemoryExchange()
    hosts = HOSTS[:len(host_ids)]
    parts = {GUEST: lambda: meet_as_guest(guest_ids, hosts, exchange.channel_of(GUEST), threads)}
    for host, ids in zip(hosts, host_ids, strict=True):
        parts[host] = lambda host=host, ids=ids: meet_as_host(ids, GUEST, exchange.channel_of(host))
    return side_by_side(parts), exchange


@pytest.mark.parametrize("sets", [
    (["a", "b", "c"], ["b", "c", "d"]),
    (["a", "b", "c"], ["d", "e"]),
    ([], ["a"]),
    (["a"], []),
    ([], []),
    (["a"], ["a"]),
    (["a", "b", "c", "d"], ["b", "c", "d"], ["c", "d", "e"]),
    (["a", "b"], ["a"], ["b"]),
    (["a", "b"], ["a", "x"], []),
    ([str(number) for number in range(100)], *[[str(number * step) for number in range(60)] for step in (1, 2, 3)]),
    (["ä", "", " ", "=", "~" + "0" * 64, "a\nb"], ["ä", "", "=", "~" + "0" * 64, "a\nb"]),
])
@pytest.mark.parametrize("threads", [1, 4])
def test_every_party_finds_the_ids_that_all_hold(sets, threads):
    found, _ = meet(*sets, threads=threads)
    assert all(ids == set.intersection(*map(set, sets)) for ids in found.values())


def test_no_id_and_no_digest_of_one_crosses():
    guest_ids = [f"person-{number:04}" for number in range(40)]
    host_ids = [f"person-{number:04}" for number in range(20, 60)]
    _, exchange = meet(guest_ids, host_ids, host_ids[5:])
    everything = b"".join(letter.message for letter in exchange.letters)
    assert len(everything) > 10_000
    for sid in {*guest_ids, *host_ids}:
        for text in (sid, f"={sid}"):
            for digest in (hashlib.sha256(text.encode()), hashlib.md5(text.encode()), hashlib.sha1(text.encode())):
                assert digest.digest() not in everything
                assert digest.hexdigest().encode() not in everything
            assert text.encode() not in everything


def test_a_host_is_sent_nothing_but_blinded_points_of_the_final_set():
    """What the guest holds beyond the final set reaches a host in its request alone, under the guest's own key; the
    setup message, which the host can match with its ids, is about the final set."""
    _, exchange = meet([f"g{n}" for n in range(100)] + ["a", "b"], ["a", "b", "g1"], ["a", "b", "g2"])
    for host in HOSTS[:2]:
        letters = {letter.topic: letter.message for letter in exchange.received_by(host)}
        assert set(letters) == {"psi.request", "final.answer", "final.setup"}
        assert len(psi.ServerSetup.FromString(letters["final.setup"]).raw.encrypted_elements) == BLOCK
        assert len(psi.Response.FromString(letters["final.answer"]).encrypted_elements) == BLOCK


def test_sizes_are_rounded_up_so_that_an_empty_set_looks_like_a_small_one():
    sizes = {}
    for count in (0, 1, BLOCK - 1, BLOCK):
        _, exchange = meet([str(number) for number in range(count)], ["x"])
        (request,) = [letter.message for letter in exchange.letters if letter.topic == "psi.request"]
        sizes[count] = len(psi.Request.FromString(request).encrypted_elements)
    assert sizes == {0: BLOCK, 1: BLOCK, BLOCK - 1: BLOCK, BLOCK: 2 * BLOCK}


def test_nothing_repeats_from_run_to_run():
    """Keys are new each time, so what was seen in one task is of no use in the next."""
    points = set()
    for _ in range(2):
        _, exchange = meet(["a", "b"], ["a", "b"])
        (request,) = [letter.message for letter in exchange.letters if letter.topic == "psi.request"]
        points.update(psi.Request.FromString(request).encrypted_elements)
    assert len(points) == 2 * BLOCK


@pytest.mark.parametrize("message", [b"", b"garbage", b"\x08\x01" + b"\x12\x21" + b"\x02" + b"\x01" * 32])
def test_a_broken_message_names_its_sender(message):
    channel = MemoryExchange().channel_of(HOSTS[0])
    channel.exchange.channel_of(GUEST).push("psi.request", HOSTS[0], message)
    with pytest.raises(ExchangeError, match="guest 9999 sent a message that does not belong to this protocol"):
        meet_as_host(["a"], GUEST, channel)


def test_an_answer_of_another_length_names_its_sender():
    exchange = MemoryExchange()
    host = exchange.channel_of(HOSTS[0])
    server = psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.1, 1, ["=a"], psi.DataStructure.RAW).SerializeToString()
    host.push("psi.setup", GUEST, setup)
    host.push("psi.answer", GUEST, psi.Response().SerializeToString())
    with pytest.raises(ExchangeError, match="host 10000 sent"):
        meet_as_guest(["a"], HOSTS[:1], exchange.channel_of(GUEST), 1)


def test_the_component_keeps_the_rows_of_common_ids_in_the_same_order_everywhere(tmp_path):
    inputs = {
        GUEST: a_table(tmp_path, "g", [("c", "1"), ("b", "2"), ("a", "3"), ("x", "4")], ["y"]),
        HOSTS[0]: a_table(tmp_path, "h0", [("a", "5", "6"), ("b", "7", "8"), ("z", "9", "0")], ["p", "q"]),
        HOSTS[1]: a_table(tmp_path, "h1", [("b",), ("a",), ("w",)]),
    }
    outcomes, _ = run_everywhere(intersection.run, "intersection", inputs, tmp_path)
    rows = {party: list(Table(outcome.tables["data"])) for party, outcome in outcomes.items()}
    assert rows == {
        GUEST: [("a", "3"), ("b", "2")],
        HOSTS[0]: [("a", "5", "6"), ("b", "7", "8")],
        HOSTS[1]: [("a",), ("b",)],
    }
    assert outcomes[GUEST].summary == {"intersect_count": 2, "intersect_rate": 0.5}
    (metric,) = outcomes[HOSTS[1]].metrics
    assert (metric.namespace, metric.name) == ("train", "intersection")
    assert metric.data == [("intersect_count", 2), ("intersect_rate", 2 / 3)]
    assert Table(outcomes[HOSTS[0]].tables["data"]).schema.header == ("p", "q")


def test_nothing_in_common_is_an_empty_table_and_no_error(tmp_path):
    inputs = {GUEST: a_table(tmp_path, "g", [("a",)]), HOSTS[0]: a_table(tmp_path, "h", [])}
    outcomes, _ = run_everywhere(intersection.run, "intersection", inputs, tmp_path)
    for outcome in outcomes.values():
        assert list(Table(outcome.tables["data"])) == []
        assert outcome.summary == {"intersect_count": 0, "intersect_rate": 0.0}


def test_a_guest_alone_is_refused(tmp_path):
    with pytest.raises(ComponentError, match="needs one guest and a host, not 1 and 0"):
        run_everywhere(intersection.run, "intersection", {GUEST: a_table(tmp_path, "g", [("a",)])}, tmp_path)
