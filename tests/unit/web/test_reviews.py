"""What a person sees of a document that waits for an approval is what this person approves, whatever its initiator has
written or sends meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.api.v1.rendering.document_changes import MOST_SHOWN, changes
from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.document import Disclosure, JobDocument
from fate_flow.core.model.job import JobKey
from fate_flow.services.context.documents import digest_of
from fate_flow.store.values import Document
from fate_flow.web.jobs.shown_parameters import MOST_SHOWN as MOST_PARAMETERS
from fate_flow.web.pages import CALM, FRESH
from tests.kit.api.client_world import GUEST, HOST, TOY, TOY_CONF, World, make_world
from tests.kit.web.browser import Browser, Page


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def conf_with(data_num: int) -> Document:
    parameters = {"common": {"toy_0": {"data_num": data_num}}}
    return replace(TOY, runtime_conf={**TOY_CONF, "component_parameters": parameters})


def add_review(world: World, document: Document, job_id: str = "") -> str:
    job_id = world.add_job(job_id, party=HOST, initiator=GUEST, document=document, f_approval="pending")
    with world.store.transaction() as tx:
        assert tx.bind(JobBinding(job_id, GUEST, frozenset({GUEST, HOST}), digest_of(document)))
    return job_id


def form_digest(page: Page) -> str:
    [found] = [str(one.attributes["value"]) for one in page.tags if one.attributes.get("name") == "digest"]
    return found


# ---------------------------------------------------------------------- another document under the same id


def test_a_job_that_comes_again_under_its_id_is_shown_as_it_is_now(world: World) -> None:
    """It was removed here, and its binding with it: its id is free for another document."""
    browser = Browser(world)
    job_id = add_review(world, conf_with(10))
    assert "data_num all parties 10" in browser.page(f"/board/jobs/{job_id}").readable
    with world.store.transaction() as tx:
        tx.forget_seat(JobKey(job_id, HOST))
        assert tx.unbind(job_id)
    other = conf_with(999)
    add_review(world, other, job_id)
    page = browser.page(f"/board/jobs/{job_id}")
    assert "data_num all parties 999" in page.readable
    assert form_digest(page) == digest_of(other)


def test_the_form_approves_the_document_that_the_page_shows(world: World) -> None:
    """Even if the binding is already that of another one, as between two reads of a database without snapshots."""
    job_id = add_review(world, conf_with(10))
    world.write("t_job_binding", {"f_job_id": job_id}, f_digest=digest_of(conf_with(999)))
    browser = Browser(world)
    page = browser.page(f"/board/jobs/{job_id}")
    assert ("data_num all parties 10" in page.readable, form_digest(page)) == (True, digest_of(conf_with(10)))


# ---------------------------------------------------------------------- what differs


def conf(parameters: Mapping[str, Any], **more: Any) -> Document:
    return replace(TOY, runtime_conf={"component_parameters": parameters, **more})


def native(body: Mapping[str, Any], **more: Any) -> Document:
    return replace(TOY, own=JobDocument("native", body, **more))


def found(before: Document, now: Document) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.place, one.before, one.now) for one in changes(before, now).rows]


PLACE = "runtime_conf.component_parameters"


@pytest.mark.parametrize("key", [
    f"{PLACE}.reader_0.name", "component_parameters.reader_0.name", f"{PLACE[13:]}.reader_0", "component_parameters[0]",
])  # fmt: skip
def test_a_key_that_looks_like_another_place_hides_nothing(key: str) -> None:
    """FATE v1 ignores keys that it does not know, so an initiator can add any, with the old value."""
    old = {"reader_0": {"name": "loans"}}
    now = conf({"reader_0": {"name": "patients"}}, **{key: "loans"})
    assert found(conf(old), now) == [
        ("changed", f"{PLACE}.reader_0.name", '"loans"', '"patients"'),
        ("added", f'runtime_conf."{key}"', "", '"loans"'),
    ]  # fmt: skip
    assert found(conf({"x": [{"a": 1}], "x[0].a": 1}), conf({"x": [{"a": 2}], "x[0].a": 1})) == [
        ("changed", f"{PLACE}.x[0].a", "1", "2")]  # fmt: skip


def test_no_key_of_a_document_is_taken_for_what_stands_beside_it() -> None:
    before = native({"version": 1}, defaults={"task_cores": 1})
    assert found(before, native({"version": 1, "defaults": {"task_cores": 1}})) == [
        ("added", "defaults.task_cores", "", "1"), ("removed", "(defaults).task_cores", "1", "")]  # fmt: skip
    hidden = native({"version": 1, "hidden parts": {"/x": "a"}})
    given = replace(native({"version": 1}), disclosure=Disclosure(commitments={"/x": "a"}))
    assert [one[1] for one in found(hidden, given)] == ['"hidden parts"."/x"', '(hidden parts)."/x"']


@pytest.mark.parametrize(("before", "now"), [
    (1, True), (1, 1.0), (0, False), ([1], [True]), ([1, 2], [2, 1]), (None, {}), ([], {}), (0.0, -0.0), ("", None),
    ("x" * 5_000 + "a", "x" * 5_000 + "b"), ([*range(2_000), 1], [*range(2_000), 2]), ({"a": 1}, [1]), ([[1]], [1]),
])  # fmt: skip
def test_every_value_is_compared_in_full_with_its_type(before: object, now: object) -> None:
    rows = changes(conf({"p": before}), conf({"p": now})).rows
    assert rows
    assert all(one.before != one.now and max(len(one.before), len(one.now)) < 1_100 for one in rows)
    assert changes(conf({"p": before}), conf({"p": before})).is_same


KEYS = st.sampled_from(["a", "b", "a.b", "a[0]", "[0]", '"a"', "", "0", "(defaults)", "runtime_conf", "\u043e", "o"])
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "", "1", "a"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3), max_leaves=12,
)  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(KEYS, VALUES, max_size=3), st.dictionaries(KEYS, VALUES, max_size=3))
def test_two_documents_differ_where_and_only_where_their_json_does(before: Any, now: Any) -> None:
    differ = changes(replace(TOY, runtime_conf=before), replace(TOY, runtime_conf=now))
    assert differ.is_same is (json.dumps(before, sort_keys=True) == json.dumps(now, sort_keys=True))
    places = [one.place for one in differ.rows]
    assert len(places) == len(set(places)) == differ.count
    assert all(one.before != one.now for one in differ.rows)
    back = changes(replace(TOY, runtime_conf=now), replace(TOY, runtime_conf=before))
    assert {(one.place, one.now, one.before) for one in back.rows} == {
        (one.place, one.before, one.now) for one in differ.rows}  # fmt: skip


def test_what_differs_is_shown_in_ascii_so_nothing_looks_like_something_else() -> None:
    latin, cyrillic, turned = "loans", "l\u043eans", "\u202esnaol"
    rows = changes(conf({latin: latin}), conf({cyrillic: turned, "\ud800": "\udfff"})).rows
    text = json.dumps([[one.place, one.before, one.now] for one in rows], ensure_ascii=False)
    assert text.isascii()
    assert len({one.place for one in rows}) == 3


def test_documents_of_two_formats_are_never_said_to_be_the_same() -> None:
    own = native({"version": 1})
    differ = changes(TOY, own)
    assert (differ.count, differ.is_same, differ.formats) == (0, False, ("fate_v1", "native"))
    both = changes(own, native({"tasks": [{"a": 1}, 2]}))
    assert [one.place for one in both.rows] == ["tasks[0].a", "tasks[1]", "version"]


def approved_and_review(world: World, before: Document, now: Document) -> str:
    first = world.add_job(party=HOST, initiator=GUEST, document=before)
    world.write("t_job", {"f_job_id": first}, f_approval="approved", f_approval_by="ann", f_status="success",
                f_approval_digest=digest_of(before), f_end_time=1, f_reason="done")  # fmt: skip
    return add_review(world, now)


def test_many_differences_are_shown_in_pages_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"k{number:05}": number for number in range(MOST_SHOWN + 3)}
    before = conf({key: value + 1 for key, value in many.items()}, job_parameters={})
    job_id = approved_and_review(world, before, conf(many))
    browser, address = Browser(world), f"/board/jobs/{job_id}"
    page = browser.page(address)
    assert f"{MOST_SHOWN} of {MOST_SHOWN + 4} differences from that document" in page.readable
    assert page.text.count('class="place"') == MOST_SHOWN
    [more] = [str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"]
    second = browser.page(more)
    assert f"4 of {MOST_SHOWN + 4} differences from that document, from number {MOST_SHOWN + 1} on" in second.readable
    monkeypatch.setattr("fate_flow.api.v1.rendering.document_changes.changes", None)
    assert browser.page(more).text == second.text
    monkeypatch.undo()
    whole = browser.get(f"{address}/document")
    assert (whole.mimetype, whole.json_module.loads(whole.text)["digest"]) == ("text/plain", form_digest(page))
    assert '"k00202": 202' in whole.text


def test_a_page_about_a_huge_document_is_asked_for_less_often(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.web.views.MANY_VALUES", 50)
    for count, expected in ((3, FRESH), (51, CALM)):
        huge = {f"k{number}": list[int]() for number in range(count)}
        job_id = approved_and_review(world, conf({}, huge=huge), conf({}, huge={**huge, "new": count}))
        page = Browser(world).page(f"/board/jobs/{job_id}")
        assert "1 difference from that document" in page.readable
        assert [one.attributes["data-poll"] for one in page.tags if "data-poll" in one.attributes] == [str(expected)]


# ---------------------------------------------------------------------- parameters


def test_many_and_long_parameters_are_shown_in_pages(world: World) -> None:
    common = {f"k{number:05}": number for number in range(MOST_PARAMETERS + 2)}
    of_host = {"host": {"0": {"toy_0": {"k00001": "x" * 10_000}}}}
    parameters = {"common": {"toy_0": common}, "role": of_host}
    document = replace(TOY, runtime_conf={**TOY_CONF, "job_parameters": {}, "component_parameters": parameters})
    browser, job_id = Browser(world), add_review(world, document)
    keys, address, pages = list[str](), f"/board/jobs/{job_id}", 0
    while address:
        page = browser.page(address)
        keys += re.findall(r'<th scope="row">(\w+)</th><td>all parties', page.text)
        [address] = [str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"] or [""]
        pages += 1
        if pages == 1:
            assert re.search(rf"{MOST_PARAMETERS} of \d+ parameters; the whole document", page.readable)
            assert re.search(r"k00001 guest 9999 1 k00001 host 10000 \"x{3999}… \(10002 characters\)", page.readable)
    assert [one for one in keys if one.startswith("k0")] == [one for one in common if one != "k00001"]
    assert pages == 2


def test_the_changes_are_those_of_the_api_and_come_in_pages(world: World) -> None:
    many = {f"k{number:05}": number for number in range(MOST_SHOWN + 3)}
    before, now = conf({key: value + 1 for key, value in many.items()}), conf(many)
    job_id = approved_and_review(world, before, now)
    said = world.ask("job/changes", {"job_id": job_id})
    found = said["data"]
    assert (found["digest"], found["count"], found["next"]) == (digest_of(now), MOST_SHOWN + 3, MOST_SHOWN)
    assert found["approved_before"].items() >= {
        "by": "ann", "digest": digest_of(before), "has_same_name": False, "is_as_approved": True,
    }.items()  # fmt: skip
    assert found["changes"] == [
        {"kind": one.kind, "place": one.place, "before": one.before, "now": one.now}
        for one in changes(before, now).rows
    ]
    rest = world.ask("job/changes", {"job_id": job_id, "first": found["next"]})["data"]
    assert (len(rest["changes"]), rest["next"], rest["count"]) == (3, None, MOST_SHOWN + 3)
    assert list(said["jobs"]) == [job_id]


def test_a_job_of_which_none_was_approved_before_has_no_changes(world: World) -> None:
    job_id = add_review(world, conf({}))
    found = world.ask("job/changes", {"job_id": job_id})["data"]
    assert (found["approved_before"], found["count"], found["changes"]) == (None, 0, [])
    assert world.ask("job/changes", {"job_id": f"{int(job_id) + 1}"})["retcode"] != 0
