"""The page of the record: what was recorded, filtered and paged, for auditors alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.core.access.client_roles import AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, log_with, new_entry
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import segment_of
from fate_flow.services.record.sealing import seal_new
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.views import board_record
from fate_flow.store.views.board import PAGE
from tests.kit.api.client_world import START, World, make_world
from tests.kit.api.recorded_world import JOB as RECORDED
from tests.kit.api.recorded_world import recorded_world
from tests.kit.web.browser import Browser, Page, count_on, counted_queries

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
        "before=2023-11-14": [], "before=2023-11-15": [2, 1], "person=ann": [1], "person=ben": [], "status=failed": [],
        f"digest={'ab' * 16}": [1], f"digest={'ac' * 16}": [],
    }  # fmt: skip
    assert {query: ids_of(browser.page(f"/board/audit?{query}")) for query in expected} == expected
    assert f"fate_flow audit show -j {JOB}" in browser.page(f"/board/audit?job={JOB}").readable
    assert "--kind act --party 10000" in browser.page("/board/audit?kind=act&party=10000").readable
    named = browser.page("/board/audit?person=ann+b&before=2023-11-15").readable
    assert "--person 'ann b' --until 2023-11-15" in named


def test_changes_to_a_status_are_found(browser: Browser) -> None:
    for number, new in enumerate(("running", "failed", "failed")):
        fields = {"level": "job", "old": "waiting", "new": new}
        write(browser.world, new_entry(OWN_LOG, Kind.STATUS, START + number, fields, job_id=JOB))
    write(browser.world, act("failed"))
    assert ids_of(browser.page("/board/audit?status=failed")) == [3, 2]


def test_the_page_goes_on_from_its_last_entry(browser: Browser) -> None:
    write(browser.world, *(act(f"{number}") for number in range(PAGE + 5)))
    first = browser.page("/board/audit")
    second = browser.page(next_of(first))
    assert ids_of(first) + ids_of(second) == list(range(PAGE + 5, 0, -1))
    assert next_of(second) == ""
    with browser.world.store.transaction() as tx:
        seal_new(tx, START)
    for page in (browser.page("/board/audit"), browser.page(next_of(first))):
        assert f"The logs above have {PAGE + 5} sealed entries" in page.readable


def test_the_entries_of_a_job_are_counted(browser: Browser) -> None:
    write(browser.world, act("of another"), *(act(f"{number}", job_id=JOB) for number in range(PAGE + 5)))
    write(browser.world, new_entry(OWN_LOG, Kind.KEYS, START, {"number": 1}, job_id=JOB))
    counted = f"of {PAGE + 6} entries, newest first"
    assert f"{PAGE} {counted}; there are older ones" in browser.page(f"/board/audit?job={JOB}").readable
    move_into_a_file(browser.world, OWN_LOG, 0, 7)
    first = browser.page(f"/board/audit?job={JOB}")
    assert f"{PAGE} {counted}" in first.readable
    assert f"6 {counted}, continued" in browser.page(next_of(first)).readable
    assert "1 entry, newest first" in browser.page(f"/board/audit?job={JOB}&kind=keys").readable


def test_all_entries_that_fit_are_counted_when_somebody_asks(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_record, "MOST_SEARCHED", 25)
    kinds = [Kind.KEYS if number % 3 else Kind.ACT for number in range(60)]
    write(browser.world, *(new_entry(OWN_LOG, kind, START, {"what": "x"}) for kind in kinds))
    assert browser.get("/board/audit/count?kind=act").get_json() == {"count": 8, "looked_at": 25, "next": "36"}
    assert count_on(browser, browser.page("/board/audit?kind=keys")) == [6, 17, 17]
    move_into_a_file(browser.world, OWN_LOG, 0, 43)
    assert count_on(browser, browser.page("/board/audit?kind=keys")) == [6, 17, 17]
    assert count_on(browser, browser.page("/board/audit?kind=act&from=30&after=2023-11-14")) == [4, 8, 8]
    assert browser.get("/board/audit/count?party=10000").get_json()["count"] == 0
    write(browser.world, *(act(f"{number}", job_id=JOB) for number in range(3)))
    move_into_a_file(browser.world, OWN_LOG, 43, 61)
    assert browser.get(f"/board/audit/count?job={JOB}").get_json() == {"count": 3, "looked_at": 3, "next": None}
    assert 'id="count"' not in browser.get(f"/board/audit?job={JOB}").text, "its number is known"


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


@pytest.mark.parametrize("query", [
    "kind=odd", "job=x", "party=x", "after=yesterday", "from=x", "before=x", "status=Failed!", "digest=xyz",
    "person=" + "a" * 101,
])
def test_an_odd_filter_is_refused_by_its_name(browser: Browser, query: str) -> None:
    assert f"{query.partition('=')[0]}:" in browser.page(f"/board/audit?{query}", 400).readable


def test_auditors_alone_see_it(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    job_id = world.add_job()
    write(world, act("job stopped", job_id=job_id))
    for roles, status in ((READ | SUBMIT | OPERATE, 403), (READ | AUDIT, 200)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        assert browser.get("/board/audit").status_code == status
        assert browser.get(f"/board/jobs/{job_id}/record").status_code == status
        linked = f"/board/jobs/{job_id}/record" in browser.get(f"/board/jobs/{job_id}").text
        assert linked is (status == 200)
        hrefs = [one.attributes.get("href") for one in browser.page("/board/").tags]
        assert ("/board/audit" in hrefs) is (status == 200)


def drawn(page: Page) -> int:
    return sum(one.name in ("circle", "path") and one.attributes.get("class") in (None, "message", "message answer")
               for one in page.tags)  # fmt: skip


def test_what_is_recorded_about_a_job_is_drawn_and_is_in_the_table(tmp_path: Path) -> None:
    browser = Browser(recorded_world(tmp_path))
    page = browser.page(f"/board/jobs/{RECORDED}/record")
    rows = [one for one in page.tags if one.name == "th" and one.attributes.get("scope") == "row"]
    assert drawn(page) == len(rows) == 7
    for text in ("alice: submitted", "start", "answer 0", "party 9999", "party 10000", "no <table> & nothing else"):
        assert text in page.readable, text
    assert "7 entries, in the order of writing" in page.readable
    assert not [one for one in page.tags if "style" in one.attributes]
    assert f"flow audit show -j {RECORDED}" in page.readable
    assert f"/board/jobs/{RECORDED}/record" in browser.page("/board/audit").text


def test_a_long_record_comes_in_parts_that_say_of_how_many(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_record, "MOST_STEPS", 2)
    write(browser.world, *(act(f"act {number}", START + number, job_id=JOB) for number in range(5)))
    path, seen = f"/board/jobs/{JOB}/record", []
    while path:
        with counted_queries(browser.world) as queries:
            page = browser.page(path)
        assert len(queries) <= 10
        seen.append(page.readable.partition(" of 5,")[0].rpartition("Entries ")[2])
        assert f"act {2 * (len(seen) - 1)}" in page.readable
        path = next_of(page)
    assert seen == ["1 to 2", "3 to 4", "5 to 5"]


def test_a_job_without_a_record_has_no_drawing(browser: Browser) -> None:
    assert "nothing is recorded about job" in browser.page(f"/board/jobs/{JOB}/record", 404).readable


def move_into_a_file(world: World, log: str, first: int, end: int) -> None:
    """What `retention.record_rows_days` does with old entries."""
    with world.store.transaction() as tx:
        seal_new(tx, START)
        entries = tx.sealed_entries(log, 1, first, end - first)
        assert tx.close_segment(SegmentFiles(world.home).write(segment_of(entries), entries), entries)


def test_entries_that_lie_in_files_are_on_the_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_record, "PAGE", 3)
    monkeypatch.setattr(board_record, "MOST_STEPS", 3)
    world = browser.world
    for number in range(4):
        write(world, act(f"act {number}", START + number, who="ab" * 16, job_id=JOB))
        write(world, new_entry(log_with("10000"), Kind.SENT, START + number, {"command": "apply"}, job_id=JOB))
        write(world, act(f"other {number}"))
    addresses = [f"/board/audit{query}" for query in ("", "?kind=sent", f"?job={JOB}", f"?job={JOB}&kind=act")]
    addresses.append("/board/audit?digest=" + "ab" * 16)
    addresses.append(f"/board/jobs/{JOB}/record")
    with world.store.transaction() as tx:
        seal_new(tx, START)

    def seen() -> list[list[str]]:
        return [[page.readable for page in all_pages(browser, one)] for one in addresses]

    before = seen()
    assert [len(pages) for pages in before] == [4, 2, 3, 2, 2, 3]
    for log, first, end in ((OWN_LOG, 0, 5), (log_with("10000"), 0, 4), (OWN_LOG, 5, 7)):
        move_into_a_file(world, log, first, end)
        assert seen() == before


def test_a_job_whose_entries_all_lie_in_files_has_its_drawing(browser: Browser) -> None:
    write(browser.world, act("job stopped", job_id=JOB))
    move_into_a_file(browser.world, OWN_LOG, 0, 1)
    assert "job stopped" in browser.page(f"/board/jobs/{JOB}/record").readable
    [file] = (browser.world.home / "record").rglob("*.gz")
    file.unlink()
    assert "the record is damaged" in browser.page(f"/board/jobs/{JOB}/record", 500).readable


def all_pages(browser: Browser, address: str) -> Iterator[Page]:
    while address:
        page = browser.page(address)
        yield page
        address = next_of(page)
