"""Views that begin no transaction, since they ask one query: a second one might see another state of the database."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from contextlib import closing
from textwrap import dedent
from typing import Any

import pytest

from fate_flow.store.sql.store import SqlStore
from fate_flow.store.views.board_views import BoardViews
from fate_flow.store.views.views import Views
from tests.kit.store.migrated_sqlite import migrated_sqlite
from tests.kit.store.view_queries import Ask, statements_of
from tests.store_contract.cases import DOCUMENT, GUEST, a_job

_ASKS: Mapping[str, Ask] = {
    "document": lambda views: views.document("j1"),
    "jobs_that_hold": lambda views: views.jobs_that_hold(("cores", "memory", "gpus", "engine_name")),
    "table": lambda views: views.table("n", "t"),
    "output_rows": lambda views: views.output_rows(("job_id",), {"job_id": "j1"}),
    "metric_pieces": lambda views: views.metric_pieces("j1", 0),
    "summary": lambda views: views.summary("j1", "a", GUEST),
    "uploads": lambda views: views.uploads(5),
    "_first": lambda views: views.job(("status",), a_job().key),
    "reviews": lambda views: views.board.reviews(),
    "usage": lambda views: views.board.usage(1_000),
    "engines": lambda views: views.board.engines(),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with closing(migrated_sqlite(tmp_path_factory.mktemp("home"))) as found:
        with SqlStore(found).transaction() as tx:
            tx.add_job(a_job(), DOCUMENT)
        yield found


@pytest.mark.parametrize("name", _ASKS)
def test_what_begins_no_transaction_asks_one_query(database: Any, name: str) -> None:
    assert len(statements_of(database, Views(database), _ASKS[name])) == 1


def test_all_of_them_are_tried() -> None:
    assert {one for views in (Views, BoardViews) for one in _methods_that_call(views, "_one_query")} == set(_ASKS)


def _methods_that_call(kind: type, name: str) -> Iterator[str]:
    for method in ast.walk(ast.parse(dedent(inspect.getsource(kind)))):
        if isinstance(method, ast.FunctionDef) and any(
            isinstance(one, ast.Attribute) and one.attr == name for one in ast.walk(method)
        ):
            yield method.name
