"""What a person sees of a document that waits for an approval is what this person approves, whatever its initiator has
written or sends meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.job import JobKey
from fate_flow.services.context.documents import digest_of
from fate_flow.store.values import Document
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
    """Its creation failed elsewhere, so it was forgotten here; its id is free for another document."""
    browser = Browser(world)
    job_id = add_review(world, conf_with(10))
    assert "data_num all parties 10" in browser.page(f"/board/jobs/{job_id}").readable
    with world.store.transaction() as tx:
        tx.forget_seat(JobKey(job_id, HOST))
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
