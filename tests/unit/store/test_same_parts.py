"""The contract, the store in memory and the one in SQL are cut alike: who looks for a method looks in one file name."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

import fate_flow.store

STORE = Path(next(iter(fate_flow.store.__path__)))
WHOLE = {"__init__", "store", "unit", "tables"}     # what is about no part: the transaction, its rows, its journal
CONTRACT_ALONE = {"changes", "transaction", "transaction_retry"}
SQL_ALONE = {("peers", "forgotten")}                # for the views, which read SQL


def parts_of(folder: str) -> set[str]:
    return {path.stem for path in (STORE / folder).glob("*.py")} - WHOLE


def methods_of(folder: str, part: str) -> set[tuple[str, str]]:
    module = import_module(f"fate_flow.store.{folder}.{part}")
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    public = {name for one in own for name, value in vars(one).items() if isfunction(value) and name[0] != "_"}
    return {(own[0].__name__, name) for name in public} if len(own) == 1 else {("", f"{len(own)} classes in {part}")}


def test_the_parts_have_the_same_names() -> None:
    assert parts_of("sql") == parts_of("memory") == parts_of("contract") - CONTRACT_ALONE


@pytest.mark.parametrize("part", sorted(parts_of("sql")))
def test_a_part_has_the_same_methods_everywhere(part: str) -> None:
    promised = methods_of("contract", part)
    assert promised
    assert methods_of("memory", part) == promised
    assert {one for one in methods_of("sql", part) if (part, one[1]) not in SQL_ALONE} == promised
