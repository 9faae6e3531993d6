"""Signing in: the secret key never leaves the browser, and a session is worth nothing without a valid key."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.access.client_roles import METRICS, READ, SUBMIT
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client, add_client, renew_client, revoke_client
from fate_flow.web.sessions import CHALLENGE_MS, SESSION_MS, proof_of, session_cookie
from tests.kit.api.client_world import make_world
from tests.kit.web.browser import SECRET, Browser

OWNER = ClientKeys("the-app", "the-secret")
COOKIE = session_cookie("9999")
JOB = "/board/jobs/20260101120000000001"


@pytest.fixture
def now() -> list[int]:
    return [1_700_000_000_000]


@pytest.fixture
def browser(tmp_path: Path, now: list[int]) -> Browser:
    return Browser(make_world(tmp_path, client_keys=OWNER), lambda: now[0])


@pytest.fixture
def anna(browser: Browser) -> Client:
    return add_client(browser.world.home, "anna", SUBMIT, 1)


def test_a_client_signs_in_and_is_named_in_the_log(browser: Browser, anna: Client) -> None:
    response = browser.sign_in(anna)
    assert (response.status_code, response.headers["Location"]) == (303, "/board/")
    cookie = response.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/board"} <= {part.strip() for part in cookie.split(";")}
    assert anna.secret_key not in cookie
    assert SECRET.decode() not in cookie
    assert "anna" in browser.page("/board/").readable
    assert browser.world.record.callers[-1] == "anna"


def test_the_owner_signs_in_too(browser: Browser) -> None:
    assert browser.sign_in(OWNER).status_code == 303
    assert "owner" in browser.page("/board/").readable


def test_a_link_leads_to_its_page_after_the_sign_in(browser: Browser, anna: Client) -> None:
    first = browser.get(f"{JOB}?role=guest&party_id=9999")
    assert first.status_code == 303
    assert first.headers["Location"] == f"/board/sign-in?next={JOB}%3Frole%3Dguest%26party_id%3D9999"
    response = browser.sign_in(anna, target=f"{JOB}?role=guest&party_id=9999")
    assert response.headers["Location"] == f"{JOB}?role=guest&party_id=9999"
    assert browser.get("/board/session").status_code == 204


@pytest.mark.parametrize("target", [
    "https://elsewhere.example/", "//elsewhere.example", "/board//elsewhere.example", "/v1/job/stop", "/board\\x", "",
    "/board/sign-out", "javascript:alert(1)", "/board/\r\nSet-Cookie: a=b",
])  # fmt: skip
def test_a_link_never_leads_away_from_the_board(browser: Browser, anna: Client, target: str) -> None:
    assert browser.sign_in(anna, challenge=browser.challenge(), target=target).headers["Location"] == "/board/"


def test_a_script_hears_that_the_session_has_ended(browser: Browser) -> None:
    assert browser.get("/board/", **{"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}).status_code == 401


@pytest.mark.parametrize("wrong", ["secret", "key"])
def test_a_wrong_key_is_refused_without_saying_which_part(browser: Browser, anna: Client, wrong: str) -> None:
    given = Client("anna", "another", anna.secret_key, SUBMIT) if wrong == "key" else anna
    response = browser.sign_in(given, secret="another" if wrong == "secret" else "")
    assert response.status_code == 403
    assert "the app key or the secret key is wrong" in response.text
    assert COOKIE not in response.headers.get("Set-Cookie", "")


def test_a_proof_may_have_any_characters(browser: Browser, anna: Client) -> None:
    form = {"challenge": browser.challenge(), "app_key": anna.app_key, "proof": "\u00e9"}
    assert browser.client.post("/board/sign-in", data=form).status_code == 403


def test_the_cookie_of_a_sign_in_by_tls_is_for_tls_alone(browser: Browser, anna: Client) -> None:
    assert "Secure" not in browser.sign_in(anna).headers["Set-Cookie"]
    challenge = browser.challenge()
    form = {"challenge": challenge, "app_key": anna.app_key, "proof": proof_of(anna.secret_key, challenge)}
    head = {"Origin": "https://localhost", "Host": "localhost", "Sec-Fetch-Site": "same-origin"}
    response = browser.client.post("/board/sign-in", data=form, headers=head)
    assert (response.status_code, "Secure" in response.headers["Set-Cookie"]) == (303, True)


def test_a_challenge_is_good_once_and_for_minutes(browser: Browser, anna: Client, now: list[int]) -> None:
    challenge = browser.challenge()
    assert browser.sign_in(anna, challenge=challenge).status_code == 303
    assert "signed in once already" in browser.sign_in(anna, challenge=challenge).text
    old = browser.challenge()
    now[0] += CHALLENGE_MS + 1
    assert "open for too long" in browser.sign_in(anna, challenge=old).text


def test_a_challenge_of_somebody_else_is_none(browser: Browser, anna: Client) -> None:
    good = browser.challenge()
    for made_up in (".", "x", "x.y", f"{good}0", good.replace(".", "", 1)):
        assert browser.sign_in(anna, challenge=made_up).status_code == 403


def test_a_session_ends_with_its_key(browser: Browser, anna: Client) -> None:
    browser.sign_in(anna)
    revoke_client(browser.world.home, "anna", None, 2)
    assert browser.get("/board/").status_code == 303
    renewed = renew_client(browser.world.home, "anna", None, 3)
    assert browser.get("/board/").status_code == 303
    assert browser.sign_in(renewed).status_code == 303


def test_a_session_ends_after_half_a_day(browser: Browser, anna: Client, now: list[int]) -> None:
    browser.sign_in(anna)
    now[0] += SESSION_MS
    assert browser.get("/board/").status_code == 200
    now[0] += 1
    assert browser.get("/board/").status_code == 303


def test_a_cookie_that_was_changed_is_none(browser: Browser, anna: Client) -> None:
    browser.sign_in(anna)
    kept = browser.client.get_cookie(COOKIE, path="/board")
    assert kept is not None
    body, _, mac = kept.value.partition(".")
    for value in (f"{body}A.{mac}", f"{body}.{mac[:-2]}zz", body, ".", browser.challenge()):
        browser.client.set_cookie(COOKIE, value, path="/board")
        assert browser.get("/board/").status_code == 303, value


def test_a_key_for_metrics_sees_no_board(browser: Browser) -> None:
    scraper = add_client(browser.world.home, "prometheus", METRICS, 1)
    response = browser.sign_in(scraper)
    assert response.status_code == 403
    assert "metrics" in response.text


def test_signing_out_ends_the_session_at_the_server(browser: Browser, anna: Client) -> None:
    browser.sign_in(anna)
    kept = browser.client.get_cookie(COOKIE, path="/board")
    assert kept is not None
    assert browser.send("/board/sign-out").headers["Location"] == "/board/sign-in"
    assert browser.get("/board/").status_code == 303
    again = Browser(browser.world, lambda: 1_700_000_000_000)
    again.client.set_cookie(COOKIE, kept.value, path="/board")
    assert again.get("/board/").status_code == 303, "a copy of the cookie is worth nothing, in another process either"
    assert again.sign_in(anna).status_code == 303
    assert again.get("/board/").status_code == 200


def test_two_parties_on_one_host_have_cookies_of_their_own() -> None:
    assert session_cookie("9999") == "fate_flow_board_9999"
    assert session_cookie("10000") != session_cookie("9999")


def test_without_keys_everybody_is_in(tmp_path: Path) -> None:
    browser = Browser(make_world(tmp_path))
    assert browser.get("/board/").status_code == 200
    assert browser.get("/board/sign-in").headers["Location"] == "/board/"
    assert browser.get("/board/sign-in?next=/board/queue").headers["Location"] == "/board/queue"


# ---------------------------------------------------------------------- forms and other sites


def test_a_form_without_the_token_of_the_session_does_nothing(browser: Browser, anna: Client) -> None:
    browser.sign_in(anna)
    job_id = browser.world.add_job()
    forms: list[dict[str, str]] = [{}, {"form_token": "0" * 64}, {"form_token": ""}]
    for form in forms:
        assert browser.client.post(f"/board/jobs/{job_id}/stop", data=form).status_code == 403
    [row] = browser.world.services.context.read(lambda tx: tx.jobs_here(job_id))
    assert not row.cancel_requested


def test_other_sites_may_link_to_a_page_and_do_nothing_else(browser: Browser) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert browser.get(JOB, **link).status_code == 303
    assert browser.get("/board/sign-in", **link).status_code == 200
    assert browser.get("/board/sign-in", **{**link, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    fetched = {**link, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    assert browser.get("/board/static/board.js", **fetched).status_code == 403
    assert browser.client.post("/board/sign-in", data={}, headers=link).status_code == 403
    assert browser.get("/v1/openapi.json", **link).status_code == 403
    assert browser.get("/boardx", **link).status_code == 403


@pytest.mark.parametrize(("site", "asks"), [
    ("cross-site", True), (None, True), ("same-origin", False), ("none", False),
])  # fmt: skip
def test_the_sign_in_asks_for_a_session_only_if_the_browser_may_have_kept_it_back(
    browser: Browser, site: str | None, asks: bool
) -> None:
    """A browser does not send it with a link on a page of another site; older ones do not say where a link was."""
    head = {} if site is None else {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ("data-may-have-session" in browser.get("/board/sign-in", **head).text) is asks


def test_a_reader_reads(browser: Browser) -> None:
    browser.sign_in(add_client(browser.world.home, "reader", READ, 1))
    assert browser.get("/board/jobs").status_code == 200
