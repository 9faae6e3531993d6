"""Who reaches the pages: people at the port of clients, and no other party, over whichever listener it comes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import fate_flow.api.app as public
from fate_flow.core.access.site import SiteRule
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.parties import Listen, PlainParties
from tests.kit.api.client_world import make_world
from tests.kit.web.browser import Browser

KEY = "ab" * 32
PATHS = ("/board", "/board/", "/board/jobs", "/board/sign-in", "/board/audit", "/board/static/board.css")
SIGNED = SiteRule(is_on=True)


@pytest.mark.parametrize("peer", [f"10000 {KEY}", "plain", "proxy", "stranger", ""])
@pytest.mark.parametrize("site", [SiteRule(), SIGNED], ids=["unsigned", "signed"])
def test_no_other_party_sees_a_page(tmp_path: Path, peer: str, site: SiteRule) -> None:
    plain = PlainParties(Listen("127.0.0.1", 1), frozenset({"10000"}))
    browser = Browser(make_world(tmp_path, site=site, plain_parties=plain))
    head = {"X-Fate-Flow-Peer": peer, "SRC-PARTY-ID": "10000"}
    with socket.socket(socket.AF_UNIX) as over:
        for path in PATHS:
            for method in ("GET", "POST"):
                answer = browser.client.open(
                    path, method=method, headers=head, environ_overrides={"gunicorn.socket": over}
                )
                said = (answer.status_code, "other parties have no such route" in answer.text)
                assert said in ((404, True), (403, False)), (path, method, answer.text)
                assert "<html" not in answer.text


def test_people_sign_in_where_parties_have_to_sign_requests(tmp_path: Path) -> None:
    keys = ClientKeys("the-app", "the-secret")
    browser = Browser(make_world(tmp_path, site=SIGNED, client_keys=keys))
    assert browser.get("/board/static/board.css").status_code == 200
    browser.sign_in(keys)
    assert "Overview" in browser.page("/board/").readable


def test_pages_do_not_share_the_budget_of_parties(tmp_path: Path) -> None:
    quotas = Quotas("9999", PartyQuota(requests_per_second=1, requests_at_once=1))
    browser = Browser(make_world(tmp_path, quotas=quotas))
    flood = [browser.client.post("/v1/party/heartbeat", json={"jobs": []}).status_code for _ in range(3)]
    assert 429 in flood
    for _ in range(3):
        assert browser.get("/board/").status_code == 200


def test_a_refusal_at_a_page_is_recorded_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, str, int]] = []

    class Noted:
        def __init__(self, *_: object) -> None: ...

        def note(self, party_id: str, route: str, retcode: int) -> None:
            noted.append((party_id, route, retcode))

        def finish(self) -> None: ...

    monkeypatch.setattr(public, "RefusalRecord", Noted)
    browser = Browser(make_world(tmp_path, client_keys=ClientKeys("the-app", "the-secret"), keeps_record=True))
    browser.client.post("/board/jobs/x/stop")
    assert {route for _, route, _ in noted} == {"page"}
