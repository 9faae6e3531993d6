"""Which older key lists of a party count, and for what."""

from __future__ import annotations

import pytest

from fate_flow.core.access.key_list import RECORD, PartyKeys, ReplacedKeyList
from fate_flow.core.access.replaced_keys import root_ids, signing_keys
from tests.kit.services.witness_parties import RecordKeys

DAY = 24 * 3600 * 1000
FIRST, SECOND, THIRD = (RecordKeys("9999", root=one, record=one) for one in (1, 2, 3))


def replaced(*lists: PartyKeys, at: int = 0) -> list[ReplacedKeyList]:
    return [ReplacedKeyList(one.signed, 0, at) for one in lists]


def test_a_party_is_known_by_each_root_key_that_has_announced_the_next_one() -> None:
    older = replaced(FIRST.listed(), FIRST.listed(SECOND), SECOND.listed())
    assert root_ids(SECOND.listed(THIRD), older) == (SECOND.root_id, THIRD.root_id, FIRST.root_id)
    assert root_ids(THIRD.listed(), [*older, *replaced(SECOND.listed(THIRD))]) == (
        THIRD.root_id, SECOND.root_id, FIRST.root_id
    )  # fmt: skip


def test_what_was_before_a_root_key_that_nothing_announces_is_of_somebody_else() -> None:
    older = replaced(FIRST.listed(SECOND), SECOND.listed())
    assert root_ids(THIRD.listed(), older) == (THIRD.root_id,)
    assert signing_keys(THIRD.listed(), older, RECORD) == (THIRD.own.pem,)


@pytest.mark.parametrize(
    ("until", "replaced_at", "counts"),
    [(10 * DAY, 10 * DAY, True), (10 * DAY, 9 * DAY, True), (10 * DAY, 7 * DAY, False), (None, 10 * DAY, False)],
)
def test_a_key_counts_that_went_from_the_list_when_its_announced_time_was_over(
    until: int | None, replaced_at: int, counts: bool
) -> None:
    older = replaced(FIRST.listed(SECOND, until), at=replaced_at)
    assert signing_keys(SECOND.listed(), older, RECORD) == (SECOND.own.pem, *([FIRST.own.pem] if counts else []))
