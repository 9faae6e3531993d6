"""The page of the record: what was recorded, filtered and paged, for auditors alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.access.client_roles import AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, log_with, new_entry
from fate_flow.core.record.log import Evidence
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.views import board_record
from fate_flow.store.views.board import PAGE
from tests.kit.api.client_world import START, World, make_world
from tests.kit.web.browser import Browser, Page

JOB = "202601011200000000001"


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def write(world: World, *entries: NewEntry) -> None:
    with world.store.transaction() as tx:
        tx.add_to_record(entries)


def act(what: str, at: int = START, who: str = "", job_id: str = "") -> NewEntry:
    return new_entry(OWN_LOG, Kind.ACT, at, {"what": what, "who": who}, job_id=job_id, text="because <b>")


def ids_of(page: Page) -> list[int]:
    return [int(str(one.attributes["id"]).removeprefix("entry-")) for one in page.tags
            if str(one.attributes.get("id", "")).startswith("entry-")]  # fmt: skip


def next_of(page: Page) -> str:
    return next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")


def test_a_record_that_is_off_says_how_to_switch_it_on(browser: Browser) -> None:
    assert "set record.switch: true in service_conf.yaml" in browser.page("/board/audit").readable
    object.__setattr__(browser.world.services.context, "keeps_record", True)
    readable = browser.page("/board/audit").readable
    assert "record.switch" not in readable
    assert "No entry fits." in readable


def test_entries_are_shown_with_people_and_text(browser: Browser) -> None:
    world = browser.world
    with world.store.transaction() as tx:
        person = tx.person_id("ann", "ab" * 16)
    write(world, act("job stopped", who=person, job_id=JOB))
    write(world, new_entry(log_with("10000"), Kind.SENT, START + 1, {"command": "apply"}, job_id=JOB))
    page = browser.page("/board/audit")
    assert ids_of(page) == [2, 1]
    assert "because <b> what job stopped, who ann" in page.readable
    assert "<b>" not in page.text
    assert "with/10000 not sealed yet" in page.readable
    expected = {
        "kind=act": [1], "party=10000": [2], "party=own": [1], f"job={JOB}": [2, 1], f"job={JOB[:-1]}2": [],
        "after=2030-01-01": [], "after=2023-11-14": [2, 1], f"job={JOB}&kind=sent": [2],
    }  # fmt: skip
    assert {query: ids_of(browser.page(f"/board/audit?{query}")) for query in expected} == expected
    assert f"fate_flow audit show -j {JOB}" in browser.page(f"/board/audit?job={JOB}").readable
    assert "--kind act --party 10000" in browser.page("/board/audit?kind=act&party=10000").readable


def test_the_page_goes_on_from_its_last_entry(browser: Browser) -> None:
    write(browser.world, *(act(f"{number}") for number in range(PAGE + 5)))
    first = browser.page("/board/audit")
    second = browser.page(next_of(first))
    assert ids_of(first) + ids_of(second) == list(range(PAGE + 5, 0, -1))
    assert next_of(second) == ""


def test_a_search_looks_at_so_many_entries_and_goes_on(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_record, "MOST_SEARCHED", 10)
    write(browser.world, new_entry(OWN_LOG, Kind.KEYS, START, {"number": 1}), *(act(f"{one}") for one in range(24)))
    address, found, pages = "/board/audit?kind=keys", list[int](), 0
    while address:
        page = browser.page(address)
        found, pages, address = found + ids_of(page), pages + 1, next_of(page)
    assert (found, pages) == ([1], 3)


def test_a_contradiction_of_another_party_is_said_first(browser: Browser) -> None:
    with browser.world.store.transaction() as tx:
        assert tx.add_evidence(Evidence("10000", True, "origin", 5, "one", "two", START))
    readable = browser.page("/board/audit").readable
    assert "Party 10000 has signed two logs that do not fit together" in readable
    assert readable.index("do not fit together") < readable.index("Entries")


@pytest.mark.parametrize("query", ["kind=odd", "job=x", "party=x", "after=yesterday", "from=x"])
def test_an_odd_filter_is_refused_by_its_name(browser: Browser, query: str) -> None:
    assert f"{query.partition('=')[0]}:" in browser.page(f"/board/audit?{query}", 400).readable


def test_auditors_alone_see_it(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    for roles, status in ((READ | SUBMIT | OPERATE, 403), (READ | AUDIT, 200)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        assert browser.get("/board/audit").status_code == status
        hrefs = [one.attributes.get("href") for one in browser.page("/board/").tags]
        assert ("/board/audit" in hrefs) is (status == 200)
