"""What a party lets leave of a small intersection: nothing, and no number of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import private_set_intersection.python as psi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.components.base.errors import ComponentError, ExchangeError
from fate_flow.components.builtin import intersection, secure_sum
from fate_flow.components.builtin.intersection import (
    SIZE_WANTED,
    Limit,
    count_as_guest,
    count_as_host,
    meet_as_guest,
    meet_as_host,
)
from fate_flow.components.worker.task import read_task
from fate_flow.core.model.spec import Party
from tests.kit.components.memory_channel import GUEST, HOSTS, MemoryExchange, a_table, a_task, side_by_side

FIRST, SECOND = HOSTS[:2]
Found = dict[Party, "set[str] | int | str | None"]


class StoppableExchange(MemoryExchange):
    """A party that waits for one that has failed is stopped, as the server stops its worker."""

    def outcome(self, part: Callable[[], Any], me: Party) -> set[str] | int | str | None:
        """What the party has found, or the message with which it failed."""
        try:
            found: set[str] | int | None = part()
        except ComponentError as error:
            for other in (GUEST, *HOSTS):
                for topic in TOPICS:
                    self.queue(topic, me, other).put(b"stopped")
            return error.message
        return found


TOPICS = [
    value for name, value in vars(intersection).items()
    if name.startswith(("FIRST_", "FINAL_", "COUNT", "SIZE")) and isinstance(value, str)
]  # fmt: skip


def meet(guest_ids: Collection[str], hosts: Mapping[Party, Collection[str]], least: Mapping[Party, int],
         is_shared: bool = True) -> tuple[Found, MemoryExchange]:
    exchange = StoppableExchange()
    limits = {party: Limit(party, least.get(party, 0), len(hosts) > 1) for party in (GUEST, *hosts)}

    def guest() -> Any:
        channel = exchange.channel_of(GUEST)
        return meet_as_guest(guest_ids, tuple(hosts), channel, len(hosts), is_shared, limits[GUEST])

    parts: dict[Party, Callable[[], Any]] = {GUEST: lambda: exchange.outcome(guest, GUEST)}
    for one, ids in hosts.items():
        def host(one: Party = one, ids: Collection[str] = ids) -> Any:
            return meet_as_host(ids, GUEST, exchange.channel_of(one), is_shared, limits[one])
        parts[one] = lambda host=host, one=one: exchange.outcome(host, one)      # type: ignore[misc]
    return side_by_side(parts), exchange


def ids(first: int, last: int) -> set[str]:
    return {f"id {number}" for number in range(first, last)}


@pytest.mark.parametrize("least", [1, 4, 5])
def test_an_intersection_of_at_least_that_size_is_as_without_a_limit(least: int) -> None:
    found, _ = meet(ids(0, 9), {FIRST: ids(4, 20)}, {FIRST: least})
    assert found == {GUEST: ids(4, 9), FIRST: ids(4, 9)}


@pytest.mark.parametrize("least", [6, 7, 1000])
def test_a_host_sends_no_answer_of_a_smaller_one(least: int) -> None:
    found, exchange = meet(ids(0, 9), {FIRST: ids(4, 20)}, {FIRST: least})
    assert found[FIRST] == "host 10000 lets nothing leave of an intersection of so few ids"
    sent = [(letter.topic, letter.message) for letter in exchange.letters if letter.frm == FIRST]
    assert [topic for topic, _ in sent] == ["psi.setup", "psi.answer"]
    assert sent[1][1] == SIZE_WANTED, "and this is all that the guest gets besides blinded points"
    assert isinstance(found[GUEST], str)


def test_the_guest_cannot_find_common_ids_in_what_a_refusing_host_has_sent() -> None:
    _, exchange = meet(ids(0, 9), {FIRST: ids(4, 20)}, {FIRST: 6})
    letters = {letter.topic: letter.message for letter in exchange.letters if letter.frm == FIRST}
    host_points = set(psi.ServerSetup.FromString(letters["psi.setup"]).raw.encrypted_elements)
    [request] = [one.message for one in exchange.letters if one.topic == "psi.request"]
    assert host_points.isdisjoint(psi.Request.FromString(request).encrypted_elements)


def test_a_host_learns_a_size_and_no_id_by_its_question() -> None:
    """The points come back in the order of their bytes, whatever the order of the host's ids is."""
    _, exchange = meet(ids(0, 9), {FIRST: ids(4, 20)}, {FIRST: 2})
    [returned] = [one.message for one in exchange.letters if one.topic == "size"]
    points = list(psi.Response.FromString(returned).encrypted_elements)
    assert points == sorted(points)


def test_a_guest_that_answers_with_other_points_makes_the_size_smaller() -> None:
    exchange, client = MemoryExchange(), psi.client.CreateWithNewKey(True)
    mine = exchange.channel_of(GUEST)
    mine.push("psi.request", FIRST, client.CreateRequest(["=a", "=b", "=c"]).SerializeToString())

    def lie() -> None:
        setup = psi.ServerSetup.FromString(mine.pop("psi.setup", FIRST))
        assert mine.pop("psi.answer", FIRST) == SIZE_WANTED
        answer = psi.Response()
        answer.encrypted_elements.extend(setup.raw.encrypted_elements)
        mine.push("size", FIRST, answer.SerializeToString())

    def host() -> None:
        with pytest.raises(ComponentError, match="so few ids"):
            meet_as_host(["a", "b", "c"], GUEST, exchange.channel_of(FIRST), limit=Limit(FIRST, 1))

    side_by_side({GUEST: lie, FIRST: host})


@pytest.mark.parametrize("message", [b"", b"garbage"])
def test_an_answer_that_is_none_names_the_guest(message: bytes) -> None:
    exchange, client = MemoryExchange(), psi.client.CreateWithNewKey(True)
    mine = exchange.channel_of(GUEST)
    mine.push("psi.request", FIRST, client.CreateRequest(["=a"]).SerializeToString())
    mine.push("size", FIRST, message)
    with pytest.raises(ExchangeError, match="guest 9999 sent a message that does not belong to this protocol"):
        meet_as_host(["a"], GUEST, exchange.channel_of(FIRST), limit=Limit(FIRST, 1))


def test_each_host_has_its_own_limit() -> None:
    hosts = {FIRST: ids(0, 6), SECOND: ids(3, 9)}
    found, _ = meet(ids(0, 9), hosts, {FIRST: 3, SECOND: 2})
    assert found == dict.fromkeys((GUEST, FIRST, SECOND), ids(3, 6))


def test_what_all_have_in_common_goes_to_other_hosts_only_with_consent() -> None:
    """Each of the hosts has six ids in common with the guest; three are common to all."""
    found, exchange = meet(ids(0, 9), {FIRST: ids(0, 6), SECOND: ids(3, 9)}, {FIRST: 4})
    assert found[FIRST] == "host 10000 lets nothing leave of an intersection of so few ids"
    assert found[GUEST] == found[FIRST]
    assert "final.setup" not in {letter.topic for letter in exchange.letters}


def test_a_guest_sends_nothing_of_a_smaller_one() -> None:
    found, exchange = meet(ids(0, 9), {FIRST: ids(4, 20)}, {GUEST: 6})
    assert found[GUEST] == "guest 9999 lets nothing leave of an intersection of so few ids"
    assert "final.setup" not in {letter.topic for letter in exchange.letters}
    assert meet(ids(0, 9), {FIRST: ids(4, 20)}, {GUEST: 5})[0][FIRST] == ids(4, 9)


def test_a_size_that_the_parameters_keep_from_a_host_is_not_given_to_it() -> None:
    found, exchange = meet(ids(0, 9), {FIRST: ids(4, 20)}, {FIRST: 2}, is_shared=False)
    assert str(found[GUEST]).startswith("host 10000 lets an intersection leave only if it knows its size")
    assert "size" not in {letter.topic for letter in exchange.letters}


@pytest.mark.parametrize(("least", "is_shared", "passes"), [(2, True, True), (3, True, False), (2, False, False)])
def test_a_count_is_limited_as_well(least: int, is_shared: bool, passes: bool) -> None:
    exchange = StoppableExchange()
    found = side_by_side({
        GUEST: lambda: exchange.outcome(
            lambda: count_as_guest(["a", "b", "c"], FIRST, exchange.channel_of(GUEST), is_shared), GUEST),
        FIRST: lambda: exchange.outcome(
            lambda: count_as_host(
                ["b", "c", "d"], GUEST, exchange.channel_of(FIRST), is_shared, Limit(FIRST, least)), FIRST),
    })  # fmt: skip
    assert (found == {GUEST: 2, FIRST: 2}) == passes
    assert passes or isinstance(found[GUEST], str)


def test_a_guest_does_not_send_a_small_count() -> None:
    exchange = StoppableExchange()
    channel, limit = exchange.channel_of(GUEST), Limit(GUEST, 3)
    found = side_by_side({
        GUEST: lambda: exchange.outcome(lambda: count_as_guest(["a", "b"], FIRST, channel, True, limit), GUEST),
        FIRST: lambda: exchange.outcome(
            lambda: count_as_host(["b", "a"], GUEST, exchange.channel_of(FIRST), True), FIRST),
    })  # fmt: skip
    assert found[GUEST] == "guest 9999 lets nothing leave of an intersection of so few ids"
    assert "count" not in {letter.topic for letter in exchange.letters}


_SETS = st.sets(st.integers(0, 12).map(str), max_size=8)


@pytest.mark.long
@settings(max_examples=40)
@given(_SETS, st.lists(_SETS, min_size=1, max_size=2), st.lists(st.integers(0, 6), min_size=3, max_size=3))
def test_sets_and_limits_decide_what_leaves(guest: set[str], hosts: list[set[str]], least: list[int]) -> None:
    named = dict(zip(HOSTS, hosts, strict=False))
    limits = dict(zip((GUEST, *HOSTS), least, strict=False))
    common = set.intersection(guest, *hosts)
    passes = (
        all(len(guest & one) >= limits[host] for host, one in named.items())
        and all(len(common) >= limits[party] for party in (GUEST, *named))
    )
    found, exchange = meet(guest, named, limits)
    assert (found == dict.fromkeys((GUEST, *named), common)) == passes
    answers = [letter for letter in exchange.letters if letter.topic == "psi.answer"]
    answered = {letter.frm for letter in answers if letter.message != SIZE_WANTED}
    assert all(len(guest & named[host]) >= limits[host] for host in answered)
    sent_final = any(letter.topic == "final.setup" for letter in exchange.letters)
    assert sent_final == passes


# ------------------------------------------------------------------ SecureSum, and where the number comes from


@pytest.mark.parametrize(("rows", "least", "passes"), [(3, 3, True), (3, 4, False), (0, 1, False), (0, 0, True)])
def test_a_sum_of_few_rows_does_not_begin(tmp_path: Path, rows: int, least: int, passes: bool) -> None:
    exchange = StoppableExchange()

    def part(me: Party, least: int) -> Callable[[], Any]:
        uri = a_table(tmp_path, f"t{me.party_id}", [(str(one), "1") for one in range(rows)], ["x"])
        task = a_task(
            "secure_sum", me, [GUEST, FIRST], parameters={"column": "x"}, inputs={"data": (uri,)},
            least_intersection=least, open_channel=lambda: exchange.channel_of(me),
        )
        return lambda: exchange.outcome(lambda: secure_sum.run(task).summary["total"], me)

    if passes:
        found = side_by_side({GUEST: part(GUEST, 0), FIRST: part(FIRST, least)})
        assert found == dict.fromkeys((GUEST, FIRST), f"{2 * rows}.00")
    else:
        assert part(FIRST, least)() == "host 10000 lets no sum of so few rows leave"
        assert exchange.letters == []


def test_the_number_is_an_option_of_the_task_configuration() -> None:
    options: dict[str, Any] = {"data_dir": "/data", "task_cores": 2}
    config = {
        "task_id": "j_a", "party_task_id": "j_a_0_guest_9999_x", "task_name": "a", "component": "intersection",
        "role": "guest", "party_id": "9999", "conf": {"computing": {"metadata": {"options": options}}},
    }
    assert read_task(config).least_intersection == 0
    options["least_intersection"] = 7
    assert read_task(config).least_intersection == 7
