"""How much one other party may take, and what it reads when it has taken that."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import TooLarge, TooMany
from fate_flow.core.quotas.holding import Held
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.core.quotas.seldom import Seldom

QUOTAS = Quotas("10000", PartyQuota(2, 100), {"9999": PartyQuota(3, 200)})


@pytest.mark.parametrize(("party_id", "most"), [("9999", 3), ("555", 2), ("", 2)])
def test_a_party_may_have_as_many_jobs_as_its_quota_says(party_id: str, most: int) -> None:
    QUOTAS.check_unfinished_jobs(party_id, most - 1)
    for count in (most, most + 7):
        with pytest.raises(TooMany):
            QUOTAS.check_unfinished_jobs(party_id, count)


@pytest.mark.parametrize(("party_id", "most"), [("9999", 200), ("555", 100)])
def test_a_document_may_be_as_large_as_its_quota_says(party_id: str, most: int) -> None:
    QUOTAS.check_document(party_id, most)
    with pytest.raises(TooLarge):
        QUOTAS.check_document(party_id, most + 1)


def test_a_refusal_names_the_key_the_value_the_limit_and_who_may_change_it() -> None:
    with pytest.raises(TooMany) as caught:
        QUOTAS.check_unfinished_jobs("9999", 3)
    assert caught.value.message == (
        "party 9999 has 3 unfinished jobs at party 10000, and may have at most 3 (quotas.parties.9999.unfinished_jobs, "
        "which only an operator of party 10000 can change): submit again when some of them have ended"
    )
    with pytest.raises(TooLarge) as refused:
        QUOTAS.check_document("555", 201)
    assert refused.value.message == (
        "the document has 201 bytes with the rest of its command, and party 555 may send at most 100 "
        "(quotas.default.document_bytes, which only an operator of party 10000 can change)"
    )


@pytest.mark.parametrize(("share", "total", "most"), [
    (1.0, 20, None), (0.9, 20, 18), (0.29, 100, 29), (0.55, 100, 55), (0.9, 9, 9), (0.9, 10, 9), (0.01, 20, 1),
    (0.5, 0, 0),
])  # fmt: skip
def test_a_share_of_cores_is_rounded_up_to_whole_cores(share: float, total: int, most: int | None) -> None:
    assert Quotas("10000", PartyQuota(cores_share=share)).most_of("9999", Held.CORES, total) == most


def test_only_requests_beyond_the_least_quota_are_measured() -> None:
    assert QUOTAS.least_document_bytes == 100
    assert Quotas("1", PartyQuota(1, 300), {"9999": PartyQuota(1, 200)}).least_document_bytes == 200


def test_a_line_is_due_once_in_a_while_and_counts_those_left_out() -> None:
    seldom = Seldom(60.0)
    assert [seldom.due("a", now) for now in (0.0, 1.0, 59.9)] == [0, None, None]
    assert seldom.due("b", 1.0) == 0
    assert [seldom.due("a", now) for now in (60.0, 61.0, 200.0)] == [2, None, 1]


def test_no_party_fills_the_memory_with_keys() -> None:
    seldom = Seldom(60.0)
    assert [seldom.due(number, 0.0) for number in range(2000)] == [0] * 2000
    assert (seldom.due(1999, 1.0), seldom.due(0, 1.0)) == (None, 0)
