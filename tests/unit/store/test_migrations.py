"""Released migrations stay as they are."""

from __future__ import annotations

from fate_flow.store.database.migrations import Migration, migrations

RELEASED = {
    1: "7f606f999c06f800b744b370f317f2df539af919ae25ce9e80eb6fa6904851fb",
    2: "41e9b622fc6232d7d40574132a5c3862b8baa150cbd2d1c82d0bc85895caf542",
    3: "c47d222ae9f7e40c0e22918c062e39973e99438d758b242ade8321f08505356c",
    4: "babfb51953ec251dec0d29c9c473d85c5205348bfaa07e8a86b453538cacad39",
    5: "323149f4d94f3aa81ec823e57bdb224c7983f418bdb5883778f1930651afcfb9",
    6: "53c66867c15bb7bf8fd2fae463b8c6be3f80822045b053ca15484dd98f4f7b48",
    7: "13e4bc4c0d5d4dec311f13305447b6a47fd7d812069e2683c955fff5da168898",
    8: "3971310278b09f67b92419f580ac73e1dc13807b7a4f5527c7e8d1a0a5ce2c02",
}
"""The digests of the migrations that users' databases have had: none of them may ever change."""


def test_a_released_migration_never_changes() -> None:
    """When this fails: undo the change, and write a migration with a new number."""
    found = {one.number: one.digest for one in migrations() if one.number in RELEASED}
    assert found == RELEASED


def test_only_the_newest_migration_is_open() -> None:
    assert len(migrations()) - len(RELEASED) <= 1


def test_a_comment_does_not_change_the_digest_and_a_statement_does() -> None:
    first = Migration(1, "one", "CREATE TABLE t_one (f_a INTEGER);")
    assert first.digest == Migration(1, "one", "-- why\nCREATE TABLE t_one (\n  f_a INTEGER -- what\n)").digest
    assert first.digest != Migration(1, "one", "CREATE TABLE t_one (f_b INTEGER);").digest
