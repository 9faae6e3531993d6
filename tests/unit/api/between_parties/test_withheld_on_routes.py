"""What is withheld from a party on the routes of clients and of other parties."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.api.v1.jobs.submission import parties_that_get_all
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.disclosure import as_given_to, with_disclosure
from fate_flow.services.context.documents import digest_of, parse_document
from fate_flow.services.initiator.unaware import UnawareParties
from fate_flow.services.use_cases.submits import Submits
from fate_flow.store.values import Document
from tests.kit.api.client_world import GUEST, HOST, TOY_CONF, TOY_DSL, World, make_world

JOB = "202611220211000000000"
ROLE = {"guest": {"0": {"toy_0": {"note": "guest's"}}}, "host": {"0": {"toy_0": {"note": "host's"}}}}
CONF = {**TOY_CONF, "component_parameters": {"role": ROLE}}
DOCUMENT = Document(TOY_DSL, CONF, {})
AWARE = Answer(data={"hold": None, "extensions": {"disclosure": 1}})
UNAWARE = Answer(data={"hold": None, "way_back": None})
OF_FATE = Answer(100, "404 Not Found: The requested URL was not found on the server.")
DEFECT = replace(OF_FATE, is_named=True)        # of a server that names its party, so it does not speak plain v1
SILENT = Answer(104, "party 10000 does not answer: ConnectTimeout")
WARNING = "party 10000 gets the parameters of all parties: its server does not offer to be without them"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path)
    yield world
    world.store.close()


@pytest.mark.parametrize(("answer", "whole"), [
    (AWARE, set()), (UNAWARE, {"10000"}), (OF_FATE, {"10000"}), (DEFECT, set()), (SILENT, set()),
    (Answer(108, "no route here"), set()),
])  # fmt: skip
def test_a_submit_asks_who_needs_the_whole_document(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Answer, whole: set[str]
) -> None:
    taken: list[Collection[str] | None] = []

    def submit(*args: Any) -> str:
        taken.append(args[-2])
        return JOB

    monkeypatch.setattr(Submits, "submit", submit)
    world.peers.answer = answer
    said = world.ask("job/submit", {"job_dsl": TOY_DSL, "job_runtime_conf": CONF})
    assert (said["retcode"], taken) == (0, [whole])
    assert (WARNING in said["data"]["warnings"]) == bool(whole)
    assert world.peers.asked == [(HOST, "/party/intake")]


def test_a_job_without_other_parties_asks_nobody(world: World) -> None:
    conf = {**TOY_CONF, "role": {"guest": [9999]}}
    spec = parse_document(world.services.context, Document(TOY_DSL, conf, {}).content)
    assert parties_that_get_all(world.services, spec) is None
    assert world.peers.asked == []


def test_an_answer_counts_for_a_while(world: World) -> None:
    now, asked = [0.0], list[str]()
    parties = UnawareParties(60.0, 600.0, lambda: now[0])

    def ask(answer: Answer) -> Callable[[str], Answer]:
        return lambda party_id: asked.append(party_id) or answer

    for answer, seconds, unaware in ((SILENT, 0, set()), (UNAWARE, 0, {"1"}), (AWARE, 59, {"1"}), (SILENT, 2, {"1"}),
                                    (AWARE, 0, set())):
        now[0] += seconds
        parties.ask(parties.unknown(["1"]), ask(answer))
        assert parties.among(["1", "2"]) == unaware
    assert asked == ["1"] * 4


@pytest.mark.parametrize(("answer", "is_whole"), [(AWARE, False), (UNAWARE, True)])
def test_a_party_is_asked_about_what_it_would_get(world: World, answer: Answer, is_whole: bool) -> None:
    bodies: list[Mapping[str, Any]] = []

    def ask(_: Party, endpoint: str, body: Mapping[str, Any]) -> Answer:
        bodies.append(body)
        return answer if endpoint.endswith("intake") else Answer(data={"previewed": True})

    world.peers.ask = ask  # type: ignore[method-assign]
    object.__setattr__(world.services, "ask_party", ask)
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": CONF})
    assert (said["retcode"], WARNING in said["data"]["warnings"]) == (0, is_whole)
    body = repr(bodies[-1])
    assert ("host's" in body, "guest's" in body) == (True, is_whole)


def withheld_here(world: World) -> Document:
    """A job of party 10000, of which this party, the host, has its own parameters."""
    conf = {**CONF, "initiator": {"role": "guest", "party_id": 10000}, "role": {"guest": [10000], "host": [9999]}}
    whole = with_disclosure(world.services.context, Document(TOY_DSL, conf, {}), ())
    given = as_given_to(whole, "9999")
    assert digest_of(given) == digest_of(whole)
    world.add_job(JOB, JobStatus.RUNNING, Party("host", "9999"), Party("guest", "10000"), given)
    return given


def test_a_client_sees_what_is_withheld(world: World) -> None:
    document, seat = withheld_here(world), {"job_id": JOB, "role": "host", "party_id": "9999"}
    config = world.ask("job/config", seat)["data"]
    assert config["withheld"] == [{"role": "guest", "party_id": "10000"}]
    assert (config["digest"], "document" in config) == (digest_of(document), False)
    assert config["runtime_conf"]["component_parameters"]["role"]["host"] == ROLE["host"]
    of_guest = {**seat, "role": "guest", "party_id": "10000", "component_name": "toy_0"}
    said = world.ask("tracking/component/parameters", of_guest)
    assert (said["retcode"] != 0, "are not known here: ask that party" in said["retmsg"]) == (True, True)
    own = world.ask("tracking/component/parameters", {**seat, "component_name": "toy_0"})["data"]
    assert own["ComponentParam"]["note"] == "host's"


def test_the_name_of_an_output_table_is_not_told_to_whom_it_is_withheld_from(world: World) -> None:
    """A Reader hands on the table that its parameters name."""
    document = with_disclosure(world.services.context, DOCUMENT, ())
    world.add_job(JOB, JobStatus.RUNNING, document=document)
    world.add_task(JOB, party=GUEST, f_status="success")
    for name in ("guest's", "made"):
        world.add_output(JOB, world.add_table("demo", name, [("1", "2", "3")]), data_name=name)
    path = f"tracker/{JOB}/toy_0/guest/9999/output/table"
    named = {one["table_name"] for one in world.ask(path, {}, headers={"SRC-PARTY-ID": "10000"})["data"]}
    assert named == {"made"}
