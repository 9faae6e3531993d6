"""A table that is uploaded again under its name keeps what operators have said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.artifact import TABLE, Artifact
from fate_flow.services.artifacts.kind import Maker
from fate_flow.services.artifacts.tables import TableKind
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.values import TableMeta
from tests.kit.values import NOW, a_task

OLD = TableMeta("trial", "bank", "standalone:///data/trial/bank", 3, {}, job_id="202601011200000000001")


@pytest.mark.parametrize("is_disabled", [False, True])
def test_a_table_that_was_disabled_stays_so(is_disabled: bool) -> None:
    """Who may upload need not be one who may enable it."""
    store, task = MemoryStore(), a_task().key
    metadata = {
        "namespace": "trial", "name": "bank", "count": 5, "schema": {}, "replaced": 0, "job_id": task.job_id,
    }  # fmt: skip
    again = Artifact(TABLE, f"{OLD.uri}.sqlite", metadata, "data")
    with store.transaction() as tx:
        tx.save_table(replace(OLD, is_disabled=is_disabled), NOW)
        TableKind().publish(tx, Maker(task, None, CATALOGUE["Upload"], NOW), [again])
        found = tx.table("trial", "bank")
    assert (found.count, found.is_disabled) == (5, is_disabled)
