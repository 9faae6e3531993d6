"""Verifying the record on the board, and comparing it with that of another party: what auditors see, and the bounds."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from fate_flow.core.access.client_roles import AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.record.offline.bundle import read_bundle
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.wire.v1.witnessing import LogPart
from fate_flow.services.record.sealing import seal_new
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import add_client
from tests.kit.api.client_world import START, make_world
from tests.kit.api.recorded_world import recorded_world, their_file
from tests.kit.store.sealed_meanwhile import seal_while_read
from tests.kit.web.browser import Browser, Page


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(recorded_world(tmp_path))


def token_of(browser: Browser) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', browser.get("/board/audit").text)
    assert found is not None
    return found[1]


def verify(browser: Browser) -> TestResponse:
    return browser.client.post("/board/audit/verify", data={"form_token": token_of(browser)})


def verified(browser: Browser, status: int = 200) -> Page:
    response = verify(browser)
    assert response.status_code == status, response.text
    return Page(response.text)


def compared(browser: Browser, content: bytes, party: str = "10000") -> TestResponse:
    form = {"form_token": token_of(browser), "party": party, "file": (io.BytesIO(content), "with.proof")}
    return browser.client.post("/board/audit/reconcile", data=form)


def test_each_log_has_a_result_in_words(browser: Browser) -> None:
    page = verified(browser)
    assert page.readable.count("consistent in itself nobody else vouches for it") == 2
    assert "not all of them are held by another party yet" in page.readable
    assert "no record key, so no signature was checked" in page.readable
    assert "The same by command: flow audit verify" in page.readable


def test_a_record_that_grows_meanwhile_is_not_called_broken(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = seal_while_read(monkeypatch, signs=True)
    assert "Broken" not in verified(browser).readable
    assert grown


def test_a_changed_entry_is_named_with_its_place(browser: Browser) -> None:
    browser.world.write("t_record_entry", {"f_log": "own", "f_index": 1}, f_content="{}")
    readable = verified(browser).readable
    assert "Broken: own (epoch 1)" in readable
    assert "broken at entry 1: the entry is not what was sealed" in readable


def test_a_record_that_takes_too_long_is_for_the_command(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.record.anchoring.MOST_VERIFIED", 3)
    assert "use fate_flow audit verify on the machine" in verified(browser, 413).readable


def test_one_check_runs_at_a_time(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    inner: list[int] = []

    def while_checking(*_: object) -> list[object]:
        inner.append(verify(browser).status_code)
        return []

    monkeypatch.setattr("fate_flow.web.audit_checks.verify_for_request", while_checking)
    assert "Nothing is recorded here." in verified(browser).readable
    assert inner == [503]
    assert "Nothing is recorded here." in verified(browser).readable, "the first one has ended"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(0), ("nobody is accused", "1 message: agreed: 1.")),
        (Answer(101, "no"), ("Accused: party 10000, party 9999", "1 message: altered: 1.")),
    ],
)  # fmt: skip
def test_both_sides_are_compared(
    browser: Browser, tmp_path: Path, answer: Answer, expected: tuple[str, ...]
) -> None:
    response = compared(browser, their_file(browser.world, tmp_path, answer).encode())
    assert response.status_code == 200, response.text
    readable = Page(response.text).readable
    assert [one for one in expected if one not in readable] == [], readable
    assert list((browser.world.home / "uploads").glob("*")) == [], "the file is not kept"


@pytest.mark.parametrize(
    ("content", "party", "text"),
    [
        (b"{", "10000", "file: the file is no JSON"), (b"\xff\xfe", "10000", "file: is no text"),
        (b"{}", "x", "party:"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(
    browser: Browser, tmp_path: Path, content: bytes, party: str, text: str
) -> None:
    their_file(browser.world, tmp_path, Answer())
    response = compared(browser, content, party)
    assert (response.status_code, text in Page(response.text).readable) == (400, True), response.text


def test_without_a_file_the_other_party_is_asked(browser: Browser, tmp_path: Path) -> None:
    entries = read_bundle(their_file(browser.world, tmp_path, Answer(0))).entries
    handed = LogPart([1], 1, str(entries[0].proof.checkpoint), [one.content.decode() for one in entries])
    browser.world.peers.answers["/party/record/log"] = Answer(data=handed.as_data())
    readable = Page(compared(browser, b"").text).readable
    assert "1 message: agreed: 1." in readable
    assert "The same by command: flow audit reconcile -p 10000" in readable
    browser.world.peers.answers["/party/record/log"] = Answer(UNREACHABLE, "party 10000 does not answer")
    assert "party 10000 does not hand out its log: party 10000 does not answer" in compared(browser, b"").text


def test_a_party_without_a_key_list_is_named(browser: Browser) -> None:
    response = compared(browser, b"{}", "10000")
    assert (response.status_code, "no key list of party 10000" in response.text) == (404, True), response.text


def test_auditors_alone_check_the_record(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"), keeps_record=True)
    world.services.context.write(lambda tx: seal_new(tx, START))
    for roles, status in ((READ | SUBMIT | OPERATE, 403), (READ | AUDIT, 200)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        assert browser.send("/board/audit/verify").status_code == status
    assert Browser(world).client.post("/board/audit/verify").status_code in (303, 401)


def test_the_overview_says_contradictions_to_who_can_act(tmp_path: Path) -> None:
    world = make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"))
    with world.store.transaction() as tx:
        for size in range(5):
            assert tx.add_evidence(Evidence("10000", True, "origin", size, "one", "two", START))
    for roles, count in ((READ, 0), (READ | AUDIT, 3), (READ | OPERATE, 3)):
        browser = Browser(world)
        browser.sign_in(add_client(world.home, f"has-{roles.value}", roles, 1))
        readable = browser.page("/board/").readable
        assert readable.count("has signed two logs that do not fit together") == count
        assert ("These are 3 of 5 contradictions" in readable) is bool(count)
