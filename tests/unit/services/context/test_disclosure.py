"""Each party gets the blocks of its own seats alone, and all are bound to one digest."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_flow.core.model.document import Disclosure, JobDocument, fate_v1_document
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.formats import (
    FORMATS,
    NATIVE,
    as_given_to,
    digest_of,
    has_private_parts_not_for,
    texts_not_for,
    with_disclosure,
    withheld_from,
)

PARTIES = {"guest": [9999], "host": [10000, "10001"]}
IDS = ("9999", "10000", "10001")
SEATS = tuple(Party(role, str(one)) for role, ids in PARTIES.items() for one in ids)

WHERE_V1 = {
    ("guest", "0"): "9999", ("host", "0"): "10000", ("host", "1"): "10001", ("host", "0|1"): "10000 10001",
    ("host", "all"): "10000 10001", ("host", "7"): "", ("arbiter", "0"): "", ("host", "x"): "",
}  # fmt: skip
WHERE_NATIVE = {"guest": "9999", "host": "10000 10001", "host 10000": "10000", "host 10001": "10001", "arbiter": ""}
"""The places of blocks, with the parties that they are for."""

INSIDE = st.dictionaries(
    st.sampled_from(["table", "size", "replicas", "need_run", "x", "a/b", "~"]),
    st.sampled_from(["MARK", 7, True, None, {"name": "MARK"}, ["MARK", {"deep": "MARK"}], {}]), max_size=4,
)  # fmt: skip


def marked(value: Any, mark: str) -> Any:
    return json.loads(json.dumps(value).replace("MARK", mark))


@st.composite
def fate_v1_documents(draw: Callable[..., Any]) -> JobDocument:
    """Documents whose private texts name the parties that they are for."""
    conf: dict[str, Any] = {"role": PARTIES, "initiator": {"role": "guest", "party_id": 9999}}
    for part in ("job_parameters", "component_parameters", "provider"):
        blocks: dict[str, Any] = {}
        for role, selector in draw(st.lists(st.sampled_from(sorted(WHERE_V1)), max_size=4, unique=True)):
            inside = draw(INSIDE if part == "job_parameters" else st.dictionaries(st.sampled_from("ab"), INSIDE))
            blocks.setdefault(role, {})[selector] = marked(inside, f"for-{WHERE_V1[role, selector]}.")
        conf[part] = {"common": {"a": draw(INSIDE)}, "role": blocks}
    return fate_v1_document({"components": {"a": {"module": "Work"}}}, conf)


@st.composite
def native_documents(draw: Callable[..., Any]) -> JobDocument:
    def at(inside: Any) -> dict[str, Any]:
        places = draw(st.lists(st.sampled_from(sorted(WHERE_NATIVE)), max_size=3, unique=True))
        return {where: marked(draw(inside), f"for-{WHERE_NATIVE[where]}.") for where in places}

    of_task = st.fixed_dictionaries({}, optional={"parameters": INSIDE, "run": st.booleans(), "timeout": st.just(3)})
    tasks = {name: {"component": "Work", "parameters": draw(INSIDE), "at": at(of_task)} for name in "ab"}
    file = {"parties": PARTIES, "at": at(st.fixed_dictionaries({"resources": INSIDE})), "tasks": tasks}
    return JobDocument(NATIVE, file, {"task_cores": 1})


DOCUMENTS = fate_v1_documents() | native_documents()


def salts() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{next(numbers):064x}"


def private(document: JobDocument, whole: tuple[str, ...] = ()) -> JobDocument:
    return with_disclosure(document, whole, salts())


@settings(max_examples=60)
@given(DOCUMENTS)
def test_no_party_gets_what_only_others_need(document: JobDocument) -> None:
    sealed = private(document)
    for party_id in IDS:
        text = repr(as_given_to(sealed, party_id))
        assert not [one for one in marks_in(document) if party_id not in one and one in text]
        assert has_private_parts_not_for(document, party_id) == (withheld_or_nobodys(sealed, party_id) != set())


def marks_in(document: JobDocument) -> set[str]:
    return {f"for-{ids}." for ids in (*WHERE_V1.values(), *WHERE_NATIVE.values()) if f"for-{ids}." in repr(document)}


def withheld_or_nobodys(sealed: JobDocument, party_id: str) -> set[str]:
    given = as_given_to(sealed, party_id).disclosure
    return set() if given is None else set(given.commitments)


@settings(max_examples=60)
@given(DOCUMENTS)
def test_all_parties_are_bound_to_one_digest(document: JobDocument) -> None:
    sealed = private(document, whole=("10001",))
    assert {digest_of(as_given_to(sealed, party_id)) for party_id in IDS} == {digest_of(sealed)}
    assert as_given_to(sealed, "10001").body == document.body
    for party_id in IDS[:2]:
        assert not any(seat.party_id == party_id for seat in withheld_from(as_given_to(sealed, party_id)))


@settings(max_examples=60)
@given(DOCUMENTS, st.data())
def test_any_change_of_a_block_is_another_digest(document: JobDocument, data: st.DataObject) -> None:
    sealed = private(document)
    path = data.draw(st.sampled_from([path for path in _objects(document.body, ()) if path]))
    body = copy.deepcopy(document.body)
    inside: Any = body
    for key in path:
        inside = inside[key]
    inside["one more"] = "value"
    changed = private(replace(document, body=body))
    assert digest_of(changed) != digest_of(sealed)


def _objects(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        yield path
        for key, inside in value.items():
            yield from _objects(inside, (*path, key))


def reading(*tables: str, **more: Any) -> JobDocument:
    """Each host reads its table."""
    blocks = {str(place): {"a": {"table": {"name": name}, **more}} for place, name in enumerate(tables)}
    conf = {"role": PARTIES, "component_parameters": {"common": {}, "role": {"host": blocks}}}
    return fate_v1_document({}, conf)


FIRST, SECOND = (f"/runtime_conf/component_parameters/role/host/{place}" for place in (0, 1))


def test_salts_hide_that_two_parties_have_the_same() -> None:
    given = as_given_to(private(reading("equal", "equal")), "9999").disclosure
    assert given is not None
    assert (len(set(given.commitments.values())), given.salts) == (2, {})


def test_a_change_leaves_the_commitments_to_other_blocks() -> None:
    before = private(reading("one", "two"))
    numbers = count(100)
    after = with_disclosure(reading("one", "other"), (), lambda: f"{next(numbers):064x}", before)
    assert before.disclosure is not None
    assert after.disclosure is not None
    assert after.disclosure.salts[FIRST] == before.disclosure.salts[FIRST]
    assert after.disclosure.salts[SECOND] != before.disclosure.salts[SECOND]


def test_other_parties_know_whether_a_component_runs_and_how_many_workers_it_has() -> None:
    given = as_given_to(private(reading("one", "two", need_run=False, replicas=3, size="not a number")), "10000")
    assert given.body["runtime_conf"]["component_parameters"]["role"]["host"] == {
        "0": {"a": {"table": {"name": "one"}, "need_run": False, "replicas": 3, "size": "not a number"}},
        "1": {"a": {"need_run": False, "replicas": 3}},
    }
    assert withheld_from(given) == {Party("host", "10001")}
    assert texts_not_for(private(reading("one", "two")), "10000") == {"two"}


def test_what_applies_to_the_whole_job_is_known_to_all() -> None:
    block = {"timeout": 9, "task_cores": 2, "rabbitmq_run": {"password": "secret"}}
    conf = {"role": PARTIES, "job_parameters": {"role": {"guest": {"0": block}}}}
    given = as_given_to(private(fate_v1_document({}, conf)), "10000")
    assert given.body["runtime_conf"]["job_parameters"]["role"] == {"guest": {"0": {"timeout": 9}}}


def test_a_document_without_private_parts_is_bound_as_before() -> None:
    document = reading()
    assert digest_of(private(document)) == digest_of(document)
    assert as_given_to(private(document), "9999") == document


SALT, COMMITMENT = "1" * 64, "2" * 64
FITTING = Disclosure({FIRST: SALT}, {SECOND: COMMITMENT})


@pytest.mark.parametrize(("change", "text"), [
    ({"salts": {}}, f"disclosure.salts: '{FIRST}' of the document has a private part, but no salt"),
    ({"salts": {FIRST: SALT, SECOND: SALT}}, f"disclosure.salts: '{SECOND}' of the document has a salt, but nothing"),
    ({"salts": {FIRST: SALT, "/gone": SALT}}, "disclosure.salts: the document has no block '/gone'"),
    ({"salts": {FIRST: "1" * 63}}, "is not 64 lower case hex digits"),
    ({"salts": {FIRST: 1}}, "disclosure.salts: 1 for"),
    ({"commitments": {FIRST: COMMITMENT}}, f"disclosure.commitments: the private part of '{FIRST}' is in the document"),
    ({"commitments": {"/gone": COMMITMENT}}, "disclosure.commitments: the document has no block '/gone'"),
    ({"commitments": {SECOND: "x" * 64}}, "is not 64 lower case hex digits"),
])  # fmt: skip
def test_a_disclosure_that_does_not_fit_is_refused(change: dict[str, Any], text: str) -> None:
    document = reading("one")
    conf = copy.deepcopy(dict(document.body["runtime_conf"]))
    conf["component_parameters"]["role"]["host"]["1"] = {}
    document = fate_v1_document({}, conf)
    digest_of(replace(document, disclosure=FITTING))
    with pytest.raises(BadRequest, match=re.escape(text)):
        digest_of(replace(document, disclosure=replace(FITTING, **change)))


def test_the_blocks_of_any_document_have_paths_of_their_own() -> None:
    conf = {"role": {"host": [1]}, "provider": {"role": {"host": {"a/b": {"x": 1}, "a~1b": {"x": 1}, "a": {"b": 1}}}}}
    document = fate_v1_document({}, conf)
    names = [block.name for block in FORMATS[document.format].blocks(document)]
    assert len(names) == len(set(names)) == 3


@pytest.mark.parametrize("body", [
    {}, {"runtime_conf": []}, {"runtime_conf": {"role": 3, "component_parameters": {"role": {"host": [1]}}}},
    {"runtime_conf": {"role": {"host": [None, "x"]}, "provider": {"role": {"host": {"0": {"x": 1}, "1": None}}}}},
])  # fmt: skip
def test_what_is_no_document_has_no_blocks_of_anybody(body: dict[str, Any]) -> None:
    for document in (JobDocument("fate_v1", body), JobDocument(NATIVE, body)):
        assert not [block for block in FORMATS[document.format].blocks(document) if block.seats]
