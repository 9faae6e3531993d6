"""The pages of tables: which there are, who may use one, where it is from, where it went, and who sees its rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.access.client_roles import READ, SUBMIT
from fate_flow.core.access.permission import EVERYTHING, Kind, PermissionRule, Thing
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import ModelReference
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.values import READ as ONLY_READ
from fate_flow.store.values import Document, OutputTable, TableMeta
from fate_flow.store.views import board, board_tables, job_search
from fate_flow.store.views.board import PAGE
from fate_flow.store.views.board_tables import inputs_in
from fate_flow.web.data_pages import ROWS_PAGE, SCHEMA_PAGE
from fate_flow.web.table_schema import Column, columns_of
from tests.kit.api.client_world import GUEST, HOST, START, TOY_CONF, World, make_world
from tests.kit.api.models import add_model
from tests.kit.web.browser import Browser, Page, count_on

DSL = {"components": {
    "load": {"module": "Reader", "output": {"data": ["data"]}},
    "join": {"module": "Intersection", "input": {"data": {"data": ["load.data"]}}, "output": {"data": ["data"]}},
}}  # fmt: skip


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def address(namespace: str, name: str) -> str:
    return f"/board/data/table?namespace={namespace}&name={name}"


def links(page: Page) -> list[str]:
    return [str(one.attributes["href"]) for one in page.tags if one.name == "a"]


def next_of(page: Page) -> str:
    return next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")


def save(world: World, table: TableMeta, at: int = START) -> TableMeta:
    with world.store.transaction() as tx:
        tx.save_table(table, at)
    return table


def chain(world: World, dsl: Mapping[str, Any] = DSL) -> tuple[str, TableMeta]:
    """An uploaded table that a task has read, and what the next task has made of it; the job and that table."""
    upload = world.add_table("demo", "site_a", [("1", "2", "3")])
    job_id = world.add_job(document=Document(dsl, TOY_CONF, {}))
    namespace = f"output_{job_id}"
    loaded, made = (save(world, TableMeta(namespace, name, upload.uri, 1, {"header": ["x"]}, origin="output",
                                          job_id=job_id)) for name in ("loaded", "joined"))  # fmt: skip
    with world.store.transaction() as tx:
        tx.save_outputs([
            OutputTable(TaskKey(job_id, "load", 0, GUEST), ONLY_READ, "demo", "site_a"),
            OutputTable(TaskKey(job_id, "load", 0, GUEST), "data", namespace, loaded.name),
            OutputTable(TaskKey(job_id, "join", 0, GUEST), "data", namespace, made.name),
        ], START)  # fmt: skip
    return job_id, made


def test_a_table_leads_to_its_sources_and_to_where_it_went(browser: Browser) -> None:
    job_id, made = chain(browser.world)
    page = browser.page(address(made.namespace, made.name))
    assert "Output data of task join , which has read: " in page.readable
    loaded = next(one for one in links(page) if one.endswith("name=loaded"))
    before = browser.page(loaded)
    assert "Output data of task load , which has read: demo / site_a" in before.readable
    upload = browser.page(next(one for one in links(before) if one.endswith("name=site_a")))
    assert f"/board/jobs/{job_id}/tasks/load?version=0" in links(upload)
    assert "has read it" in upload.readable
    assert "has made it" in page.readable


def test_a_table_leads_to_its_models_and_a_model_back_to_the_upload(browser: Browser) -> None:
    world = browser.world
    trained = {"components": {
        **DSL["components"],
        "fit": {"module": "Fit", "input": {"data": {"train_data": ["join.data"]}}, "output": {"model": ["model"]}},
        "other": {"module": "Fit", "output": {"model": ["model"]}},
    }}  # fmt: skip
    job_id, made = chain(world, trained)
    for name in ("fit", "other"):
        world.add_task(job_id, name=name, f_status="success", f_party_status="success", f_end_time=START)
        add_model(world, job_id, 0, name, reference=ModelReference("credit", 3, name, "model"))
    to_model = f"/board/jobs/{job_id}/tasks/fit/model?party=guest-9999&version=0&output=model"
    for namespace, name in (("demo", "site_a"), (made.namespace, "loaded"), (made.namespace, made.name)):
        page = browser.page(address(namespace, name))
        assert [one for one in links(page) if "/model?" in one] == [to_model], name
        assert "1 model that tasks of these jobs have made from it" in page.readable
        found = world.ask("table/tracking/job", {"namespace": namespace, "table_name": name})["data"]["models"]
        assert found == [{
            "model_id": "credit", "model_version": 3, "output": "model", "job_id": job_id, "component_name": "fit",
            "task_version": 0, "role": "guest", "party_id": "9999",
        }]  # fmt: skip
    model = browser.page(to_model)
    assert f"Tables that the task has read {made.namespace} / {made.name}" in model.readable
    assert "Tables with which its job began demo / site_a" in model.readable
    alone = browser.page(to_model.replace("/fit/", "/other/"))
    assert "No table of this party is known from which it was made." in alone.readable


def test_a_model_of_another_seat_is_not_made_from_the_table(browser: Browser) -> None:
    job_id, _ = chain(browser.world)
    add_model(browser.world, job_id, 0, "join", party=HOST)
    page = browser.page(address("demo", "site_a"))
    assert "No model is in the store of this party that these jobs have made from it." in page.readable


def test_the_inputs_of_a_task_are_its_data_and_models_but_not_stored_ones() -> None:
    given = {"data": {"train_data": ["a.x", "b.y"]}, "model": {"model": ["c.m", {"model": {"id": "d.n"}}]},
             "isometric_model": "e.o"}  # fmt: skip
    expected = {("a", "x"), ("b", "y"), ("c", "m"), ("e", "o")}
    assert inputs_in({"components": {"f": {"input": given}, "g": {}}}) == {"f": expected, "g": set()}
    assert inputs_in({}) == {}


def gone(name: str, schema: Schema) -> TableMeta:
    """A table without its file."""
    return TableMeta("demo", name, format_uri(Path("/data"), "demo", name), 1, schema.as_json())


def test_a_schema_says_what_is_known_of_each_column(browser: Browser) -> None:
    meta = {"label_name": "y", "label_type": "int32", "match_id_name": "phone", "dtype": {"x": "float64"}}
    save(browser.world, gone("typed", Schema(("y", "phone", "x", "z"), "no", meta)))
    readable = browser.page(address("demo", "typed")).readable
    assert "no id object y label int32 phone match id object x" in readable
    assert " float64 z " in readable
    assert columns_of({"header": ["a"], "sid": "id"}) == (Column("id", "id, match id", "object"), Column("a", "", ""))
    assert columns_of({"header": ["w"], "meta": {"weight_name": "w", "dtype": "int64"}})[1] == Column("w", "weight", "")
    assert columns_of({"header": ["b"], "meta": {"dtype": "int64"}})[1].type == "int64"


def test_a_wide_schema_has_pages(browser: Browser) -> None:
    save(browser.world, gone("wide", Schema(tuple(f"c{number}" for number in range(300)))))
    page = browser.page(address("demo", "wide"))
    assert f"Columns 1 to {SCHEMA_PAGE} of 301" in page.readable
    rest = browser.page(next(one for one in links(page) if "schema=2" in one))
    assert "Columns 201 to 301 of 301" in rest.readable
    assert "c299" in rest.readable


def test_who_may_use_a_table_is_said(browser: Browser) -> None:
    world = browser.world
    world.add_table("demo", "site_a", [])
    path = address("demo", "site_a")
    assert "Jobs of every other party" in browser.page(path).readable
    object.__setattr__(world.services.context, "permission", PermissionRule(datasets=True))
    assert "Jobs of this party alone" in browser.page(path).readable
    with world.store.transaction() as tx:
        tx.grant("10000", [Thing(Kind.DATASET, "site_a", "demo"), Thing(Kind.COMPONENT, "site_a")])
        tx.grant("10001", [Thing(Kind.DATASET, "site_b", "demo"), EVERYTHING[Kind.COMPONENT]])
        tx.grant("10002", [EVERYTHING[Kind.DATASET]])
    readable = browser.page(path).readable
    assert "and those of party 10000, and those of party 10002, which has a grant for all tables" in readable
    assert "10001" not in readable


def test_rows_are_shown_page_by_page_with_their_total(browser: Browser) -> None:
    names = tuple(f"c{number}" for number in range(30))
    uri = format_uri(browser.world.services.settings.data_dir, "demo", "wide")
    with TableWriter(uri, Schema(names, "id"), keeps_last=True) as writer:
        writer.add((f"r{row}", *(f"{row}.{column}" for column in range(30))) for row in (*range(70), 3))
    save(browser.world, TableMeta("demo", "wide", uri, 70, Schema(names, "id").as_json()))
    page = browser.page(address("demo", "wide"))
    assert f"{ROWS_PAGE} of 70 rows, columns 1 to 20 of 31" in page.readable
    assert "69.0" not in page.text
    rest = browser.page(next_of(page))
    assert "20 of 70 rows" in rest.readable
    assert "69.0" in rest.text
    columns = browser.page(next(one for one in links(page) if "columns=2" in one))
    assert "columns 21 to 31 of 31" in columns.readable
    assert "0.29" in columns.text


def test_a_table_without_its_file_says_so(browser: Browser) -> None:
    table = TableMeta("demo", "gone", format_uri(browser.world.home / "data", "demo", "gone"), 5, {"header": []})
    save(browser.world, table)
    assert "there is no table" in browser.page(address("demo", "gone")).readable
    assert "has no table" in browser.page(address("demo", "never"), 404).readable


def test_the_list_goes_on_from_its_last_row(browser: Browser) -> None:
    for number in range(PAGE + 2):
        save(browser.world, TableMeta("demo", f"t{number:03}", "standalone:///x", 1, {}), START + number // 2)
    save(browser.world, TableMeta("other", "x", "standalone:///x", 1, {}, origin="output"))
    first = browser.page("/board/data")
    second = browser.page(next_of(first))
    found = [[one.rpartition("=")[2] for one in links(page) if "/data/table" in one] for page in (first, second)]
    assert (len(found[0]), len(found[1])) == (PAGE, 2)
    assert sorted(found[0] + found[1]) == [f"t{number:03}" for number in range(PAGE + 2)]
    assert found[0][:3] == ["t051", "t050", "t049"]
    assert f"{PAGE} of {PAGE + 2} tables, newest first; there are older ones" in first.readable
    assert f"2 of {PAGE + 2} tables, newest first, continued" in second.readable
    assert next_of(second) == ""
    assert "other / x" in browser.page("/board/data?origin=output&namespace=other").readable
    assert "There is no such table." in browser.page("/board/data?namespace=nobody").readable


@pytest.mark.parametrize("query", ["origin=upload", "origin=upload&namespace=demo"])
def test_all_tables_that_fit_are_counted_when_somebody_asks(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(board, "MOST_COUNTED", PAGE + 1)
    for number in range(PAGE + 2):
        save(browser.world, TableMeta("demo", f"t{number:03}", "standalone:///x", 1, {}), START + number // 2)
    save(browser.world, TableMeta("other", "x", "standalone:///x", 1, {}, origin="output"))
    page = browser.page(f"/board/data?{query}")
    assert f"{PAGE} of more than {PAGE + 1} tables" in page.readable
    for most, pieces in ((20, [12, 20, 20]), (13, [0, 13, 13, 13, 13])):
        monkeypatch.setattr(job_search, "COUNTED_AT_ONCE", most)
        assert count_on(browser, page) == pieces
    assert 'id="count"' not in browser.get("/board/data?origin=output").text, "their number is known"


def test_all_uses_of_a_table_are_counted_when_somebody_asks(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = browser.world
    save(world, gone("busy", Schema(("x",))))
    jobs = [world.add_job() for _ in range(4)]
    with world.store.transaction() as tx:
        tx.save_outputs([
            OutputTable(TaskKey(job_id, f"{what}_{number}", 0, GUEST), ONLY_READ, "demo", what)
            for job_id in jobs for number in range(3) for what in ("busy", "other")
        ], START)  # fmt: skip
    path = address("demo", "busy")
    assert "12 uses in the newest 20000 jobs" in browser.page(path).readable
    assert 'id="count"' not in browser.page(path).text, "their number is known"
    monkeypatch.setattr(board_tables, "MOST_USES", 2)
    monkeypatch.setattr(board, "MOST_COUNTED", 5)
    page = browser.page(path)
    assert "The newest 2 of more than 5 uses" in page.readable
    for most, pieces in ((6, [0, 3, 3, 3, 3]), (7, [0, 6, 6]), (25, [12])):
        monkeypatch.setattr(board_tables, "OUTPUTS_AT_ONCE", most)
        assert count_on(browser, page) == pieces, most
    monkeypatch.undo()
    monkeypatch.setattr(board_tables, "MOST_SEARCHED", 1)       # there are jobs that the page does not look at
    page = browser.page(path)
    assert "3 uses in the newest" in page.readable
    monkeypatch.setattr(board_tables, "OUTPUTS_AT_ONCE", 25)
    assert count_on(browser, page) == [12]


@pytest.mark.parametrize("query", [
    "data/table/count?namespace=a&name=b&from=x", "data/table/count?namespace=a",
    "data/count?origin=odd", "data/count?from=x",
    "data?origin=odd", "data?from=x", "data?from=1/a", "data?from=x/a/b", "data?from=1/a/b/c", "data?from=1/a/..",
    "data/table?namespace=&name=x", "data/table?namespace=a&name=", "data/table?namespace=a&name=b&after=x",
    "data/table?namespace=a&name=b&columns=0",
])  # fmt: skip
def test_an_odd_address_is_refused(browser: Browser, query: str) -> None:
    save(browser.world, TableMeta("a", "b", "standalone:///x", 1, {}))
    browser.page(f"/board/{query}", 400)


def test_a_reader_sees_no_rows(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    world.add_table("demo", "site_a", [("id-of-a-person", "2", "3")])
    for roles, sees in ((READ, False), (SUBMIT, True)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        page = browser.page(address("demo", "site_a"))
        assert ("id-of-a-person" in page.text) is sees
        assert ("float" in page.text or "not stated" in page.text) is sees
        assert ("Your key has no client role that reads rows" in page.readable) is not sees
