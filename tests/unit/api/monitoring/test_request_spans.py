"""The spans of requests: which have one, what it says, and what belongs to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Blueprint, request

from fate_flow.api.app import create_public_app
from fate_flow.api.http.caller import note_caller
from fate_flow.api.http.errors import Api
from fate_flow.core.metrics.spans import SpanId, SpanKind, span_of_job
from fate_flow.core.model.errors import PermissionDenied, StorageFailed
from fate_flow.core.text.trace import span_id_in, trace_id_in, traceparent
from fate_flow.services.context.tracing import _AROUND
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.web.envelope import PageEnvelope
from fate_flow.web.pages import Pages
from tests.kit.api.client_world import GUEST, HOST, OWN_KEY, World, make_world
from tests.kit.api.signed_requests import asked
from tests.kit.traces.kept import KeptSpans

TRACE, SPAN = "4b" * 16, "0a" * 8
GIVEN = {"traceparent": traceparent(TRACE, SPAN)}


@pytest.fixture
def spans() -> KeptSpans:
    return KeptSpans()


@pytest.fixture
def world(tmp_path: Path, spans: KeptSpans) -> World:
    return make_world(tmp_path, spans=spans)


def test_the_request_of_a_client_is_a_child_of_its_span_and_its_answer_names_its_own(
    world: World, spans: KeptSpans
) -> None:
    answer = world.post("job/query", {"job_id": "secret-in-a-parameter"}, headers=GIVEN)
    [span] = spans.found
    assert (span.name, span.kind, span.parent) == ("POST /v1/job/query", SpanKind.SERVER, SPAN)
    named = answer.headers["traceparent"]
    assert span.id == SpanId(trace_id_in(named), span_id_in(named)) == SpanId(TRACE, span.id.span)
    assert span.attributes.items() >= {
        "http.request.method": "POST", "http.route": "/v1/job/query", "http.response.status_code": answer.status_code,
    }.items()  # fmt: skip
    assert span.begun <= span.ended
    assert "secret" not in repr(span)


def test_what_a_request_stores_about_a_job_is_a_child_of_its_span(world: World, spans: KeptSpans) -> None:
    file = world.home / "examples" / "a.csv"
    file.parent.mkdir()
    file.write_text("id,x\n1,2\n", encoding="utf-8")
    conf = {
        "dsl_version": 2, "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE"}},
        "component_parameters": {"role": {"local": {"0": {"upload_0": {
            "file": str(file), "head": 1, "partition": 2, "namespace": "demo", "name": "site_a",
        }}}}},
    }  # fmt: skip
    document = {"job_dsl": {"components": {"upload_0": {"module": "Upload"}}}, "job_runtime_conf": conf}
    answer = world.ask("job/submit", document, headers=GIVEN)
    assert answer["retcode"] == 0, answer
    of_request, seat = spans.named("POST /v1/job/submit"), spans.named("job ready")
    assert seat.id == SpanId(TRACE, span_of_job(answer["jobId"], "9999"))
    assert {one.parent for one in spans.found if one is not of_request} == {of_request.id.span}
    assert _AROUND.get() == (), "the request has left nothing behind"


def test_a_refusal_and_a_path_that_nobody_has_get_one_too_in_closed_names(world: World, spans: KeptSpans) -> None:
    world.post("job/stop", {"job_id": "20990101000000000001"})
    world.client.open("/v1/no/such/path/of/mine", method="INVENTED")
    assert [(one.name, one.attributes.get("fate_flow.retcode") is not None) for one in spans.found] == [
        ("POST /v1/job/stop", True), ("_OTHER", False)
    ]  # fmt: skip


def test_who_is_refused_as_a_caller_gets_none(tmp_path: Path, spans: KeptSpans) -> None:
    """Else anybody who reaches the port could push spans of others out of the queue, or write into their traces."""
    keys = ClientKeys("our-clients", "secret-of-all")
    world = make_world(tmp_path, client_keys=keys, spans=spans)
    pages = Api(PageEnvelope(Pages("9999", "http://127.0.0.1:9380")), (pages_that_check(),), "/board")
    app = create_public_app(world.services, message_key=lambda: OWN_KEY, pages=(pages,))
    assert world.ask("job/query", headers=GIVEN)["retcode"] == 109
    assert world.ask("no/such/path", headers=GIVEN)["retcode"] == 100
    assert [app.test_client().post("/board/do", data={"who": who}).status_code for who in ("", "anna")] == [403, 200]
    assert [one.name for one in spans.found] == ["POST /board/do"], "that of anna"
    assert asked(world, keys, "/v1/job/query").status_code == 200
    assert [one.name for one in spans.found[1:]] == ["POST /v1/job/query"]


def pages_that_check() -> Blueprint:
    """As those of the board, which check their callers by sessions."""
    routes = Blueprint("pages", __name__, url_prefix="/board")

    @routes.before_request
    def check() -> None:
        if not request.form["who"]:
            raise PermissionDenied("nobody is signed in")
        note_caller(request.form["who"])

    @routes.post("/do")
    def do() -> str:
        return "done"

    return routes


def test_probes_and_pages_that_only_read_have_none(world: World, spans: KeptSpans) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/board/"):
        world.client.get(path)
    assert spans.found == []


def test_each_command_of_a_batch_is_a_child_of_the_span_that_has_sent_it(world: World, spans: KeptSpans) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST)
    endpoint = f"/party/{job_id}/guest/9999/stop/canceled"
    entries = [
        {"endpoint": endpoint, "body": {"run": 0}, "traceparent": traceparent(TRACE, "0b" * 8)},
        {"endpoint": endpoint, "body": {"run": 0}, "traceparent": "nonsense"},
    ]
    world.ask("party/batch", {"commands": entries}, headers={"SRC-PARTY-ID": "10000", **GIVEN})
    [span] = [one for one in spans.found if one.name == "receive stop"]
    assert (span.id.trace, span.parent, span.kind) == (TRACE, "0b" * 8, SpanKind.SERVER)
    assert span.attributes.items() >= {
        "rpc.method": "stop", "fate_flow.peer.id": "10000", "fate_flow.job.id": job_id,
        "fate_flow.party.role": "guest", "fate_flow.party.id": "9999",
    }.items()  # fmt: skip


def test_a_command_alone_has_its_trace_in_the_header(world: World, spans: KeptSpans) -> None:
    world.ask(
        "party/20260101000000000001/guest/9999/start", {"run": 0}, headers={"SRC-PARTY-ID": "10000", **GIVEN}
    )
    span = spans.named("receive start")
    assert (span.id.trace, span.parent) == (TRACE, SPAN)
    assert span.attributes["fate_flow.retcode"] != 0


def test_a_command_that_could_not_be_carried_out_says_of_which_class_the_error_was(
    world: World, spans: KeptSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StorageFailed("the disk with secrets is full")

    monkeypatch.setattr(world.services.use_cases.commands, "carry_out", fails)
    world.post("party/20260101000000000001/guest/9999/start", {"run": 0}, headers={"SRC-PARTY-ID": "10000", **GIVEN})
    span = spans.named("receive start")
    assert (span.parent, span.error, "fate_flow.retcode" in span.attributes) == (SPAN, "StorageFailed", False)
    assert "secrets" not in repr(span)


def test_without_a_collector_no_request_makes_a_span(tmp_path: Path) -> None:
    spans = KeptSpans(is_on=False)
    world = make_world(tmp_path, spans=spans)
    world.post("job/query", {}, headers=GIVEN)
    world.post("party/20260101000000000001/guest/9999/start", {}, headers={"SRC-PARTY-ID": "10000", **GIVEN})
    assert spans.found == []
