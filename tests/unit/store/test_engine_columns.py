"""What FATE's columns say of engines: operators and clients know the local engine as STANDALONE."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.resources import engine_named, name_in_fate
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.store_contract.cases import DOCUMENT, Each, a_job, an_engine


@pytest.mark.parametrize(("engine", "in_fate"), [("local", "STANDALONE"), ("slurm", "slurm")])
def test_the_rows_of_an_engine_and_of_what_it_has_reserved_have_fates_name(engine: str, in_fate: str) -> None:
    store: Any = sqlite_in_memory()
    each = Each(store)
    each.register_engine(an_engine(name=engine), {}, 1)
    each.add_job(a_job(), DOCUMENT)
    assert each.job(a_job().key).claim.engine == ""
    assert each.reserve(a_job().key, engine, 2, 0, "t", 1, 2)
    find = "SELECT f_engine_name, f_engine_type, {} FROM {}"
    [row] = store.database.execute_sql(find.format("f_engine_entrance", "t_engine_registry")).fetchall()
    assert row == (in_fate, "computing", f"section of {engine}")
    [row] = store.database.execute_sql(find.format("f_cores", "t_job")).fetchall()
    assert row == (in_fate, "computing", 2)
    assert (each.job(a_job().key).claim.engine, engine_named(name_in_fate(engine))) == (engine, engine)
