"""A job whose parties get their own parameters alone: from the submit to a rerun with other parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.access.bound_document import document_name, why_other_document
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.core.wire.v1.withholding import restricted_answer
from fate_flow.jobspec.formats import NATIVE
from fate_flow.jobspec.parameters import read_change
from fate_flow.services.context.disclosure import WITHHELD, as_given_to, without_texts
from fate_flow.services.initiator.submission import create_body
from fate_flow.store.values import Document, TableMeta
from tests.kit.job_documents import job
from tests.kit.services.hand_initiator import Initiator
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.values import GUEST, HOST, JOB_ID

OTHER = Party("host", "10001")
HOSTS = (HOST, OTHER)
Body = Mapping[str, Any]
Lie = Callable[[Body], Body]
OFFERS = Answer(data={"extensions": {"disclosure": 1}})
TABLES = {GUEST: "salaries", HOST: "patients", OTHER: "customers"}


def table(name: str) -> dict[str, Any]:
    return {"a": {"table": {"namespace": "demo", "name": name}}}


def in_fate_v1(**tables: str) -> Document:
    """Every party reads its own table."""
    named = {str(party): name for party, name in TABLES.items()} | tables
    document = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": []})
    role = {
        "guest": {"0": table(named["guest 9999"])},
        "host": {"0": table(named["host 10000"]), "1": table(named["host 10001"])},
    }
    conf = {**document.runtime_conf, "component_parameters": {"common": {}, "role": role}}
    return replace(document, runtime_conf=conf)


def as_file() -> Document:
    at = {str(party): {"parameters": table(name)["a"]} for party, name in TABLES.items()}
    tasks = {"a": {"component": "Work", "at": at}}
    parties = {"guest": [9999], "host": [10000, 10001]}
    file = {"version": 1, "initiator": "guest 9999", "parties": parties, "tasks": tasks, "resources": {"memory": 0}}
    return Document({}, {}, {}, own=JobDocument(NATIVE, file))


class Parties:
    """An initiator and two hosts. All that the hosts get of it goes through `give`."""

    def __init__(self, document: Document, whole: Collection[str] = (), lie: Lie | None = None) -> None:
        self.guest, self.hosts = Initiator(), {party: HandServer(party.party_id) for party in HOSTS}
        self.lie = lie or as_it_is           # what becomes of the body of each `create`
        self.given: dict[Party, list[str]] = {party: [] for party in HOSTS}
        for party, server in ((GUEST, self.guest), *self.hosts.items()):
            with_tables(server, TABLES[party], "another")
        self.guest.submit(document, whole=whole)
        self.give(K.CREATE)
        self.give(K.STATUS)

    def give(self, kind: K) -> list[Command]:
        """Give each host the oldest command of this kind, and the initiator the answers."""
        sent = []
        for party, host in self.hosts.items():
            command = next(one for one in self.guest.outbox() if one.kind is kind and one.to == party)
            self.given[party].append(repr((command.body, command.argument)))
            body = self.lie(command.body) if kind is K.CREATE else command.body
            answer = host.handle(replace(command, body=body))
            assert answer.is_ok, answer
            self.guest.answer(kind, answer if kind is K.CREATE else None, party)
            sent.append(command)
        return sent

    def all_begin(self) -> None:
        self.guest.advance(may_begin_round=True)
        for kind in (K.CHECK, K.APPLY, K.START, K.TASK_START):
            self.give(kind)

    def bindings(self) -> list[JobBinding]:
        return [binding(server) for server in (self.guest, *self.hosts.values())]

    def named(self) -> set[str]:
        """The documents that the workers which have begun name to workers of other parties."""
        return {one.document for server in (self.guest, *self.hosts.values()) for one in server.engine.launched}

    def change(self, change: Mapping[str, Any]) -> None:
        with self.guest.unit() as unit:
            self.guest.side.change_parameters(unit, JOB_ID, read_change(change), self.guest.job(GUEST).revision)

    def foreign_tables(self, party: Party, names: Collection[str] = tuple(TABLES.values())) -> list[str]:
        """The tables of others that this host was told of, or has in its rows."""
        here = row(self.hosts[party], party)
        seen = " ".join((*self.given[party], repr(here)))
        return [name for name in names if name != TABLES[party] and name in seen]


def with_tables(server: HandServer, *names: str) -> None:
    with server.store.transaction() as tx:
        for name in names:
            tx.save_table(TableMeta("demo", name, f"standalone:///demo/{name}", 3, {}), 1)


def binding(server: HandServer) -> JobBinding:
    with server.store.reading() as tx:
        found = tx.binding(JOB_ID)
    assert isinstance(found, JobBinding)
    return found


def row(server: HandServer, party: Party) -> Document:
    with server.store.reading() as tx:
        found = tx.document(JOB_ID, party)
    assert isinstance(found, Document)
    return found


def spec(server: HandServer) -> JobSpec:
    with server.unit() as unit:
        found = unit.spec(JOB_ID)
    assert isinstance(found, JobSpec)
    return found


@pytest.mark.parametrize("document", [in_fate_v1(), as_file()], ids=["fate v1", "file"])
def test_each_party_gets_its_own_parameters_and_all_are_bound_to_one_document(document: Document) -> None:
    parties = Parties(document)
    assert len(set(parties.bindings())) == 1
    for party in HOSTS:
        assert parties.foreign_tables(party) == []
        assert spec(parties.hosts[party]).withheld == {GUEST, *HOSTS} - {party}
    parties.all_begin()
    own = row(parties.guest, GUEST).content.format
    assert parties.named() == {document_name(own, binding(parties.guest).digest)}
    read = {party: parties.hosts[party].engine.launched[0].parameters["table"]["name"] for party in HOSTS}
    assert read == {party: TABLES[party] for party in HOSTS}
    assert spec(parties.guest).withheld == frozenset()


def test_another_process_reads_the_same_of_the_rows() -> None:
    parties = Parties(in_fate_v1())
    for server in (parties.guest, *parties.hosts.values()):
        before = spec(server)
        server.context.accepted.clear()
        server.context.specs.clear()
        assert spec(server) == before


def test_a_party_that_is_to_get_the_whole_is_bound_to_the_same() -> None:
    parties = Parties(in_fate_v1(), whole=("10001",))
    assert len(set(parties.bindings())) == 1
    assert parties.foreign_tables(HOST) == []
    assert sorted(parties.foreign_tables(OTHER)) == ["patients", "salaries"]
    assert spec(parties.hosts[OTHER]).withheld == frozenset()
    assert "whole" not in parties.given[OTHER][0]


def test_without_anybody_to_withhold_from_all_is_as_before() -> None:
    parties = Parties(in_fate_v1(), whole=("10000", "10001"))
    assert "disclosure" not in parties.given[HOST][0].replace("'disclosure': 1", "")
    assert row(parties.guest, GUEST).disclosure is None


@pytest.mark.parametrize("document", [in_fate_v1(), as_file()], ids=["fate v1", "file"])
def test_other_parameters_go_to_their_parties_alone(document: Document) -> None:
    parties = Parties(document)
    before = row(parties.guest, GUEST).disclosure
    parties.change({"component_parameters": {"role": {"host": {"1": table("another")}}}})
    parties.give(K.PARAMETERS)
    assert len(set(parties.bindings())) == 1
    assert binding(parties.guest).revision == 1
    assert parties.foreign_tables(HOST, (*TABLES.values(), "another")) == []
    assert parties.foreign_tables(OTHER) == []
    after = row(parties.guest, GUEST).disclosure
    assert before is not None
    assert after is not None
    kept = set(before.salts.items()) & set(after.salts.items())
    assert len(kept) == (2 if document.own is None else 0)      # a file becomes a document of FATE: all paths are new
    parties.all_begin()
    assert parties.named() == {document_name("fate_v1", binding(parties.guest).digest)}


def test_a_job_from_before_the_upgrade_names_no_document() -> None:
    parties = Parties(in_fate_v1())
    host, here = parties.hosts[HOST], row(parties.hosts[HOST], HOST)
    with host.store.transaction() as tx:
        assert tx.revise(host.job(), host.job(), replace(here, is_compared=False))       # as an upgrade leaves it
    parties.all_begin()
    assert [one.document for one in host.engine.launched] == [""]
    assert parties.hosts[OTHER].engine.launched[0].document


def test_a_rerun_gives_each_party_its_own_parameters_again() -> None:
    parties = Parties(in_fate_v1())
    parties.change({"component_parameters": {"role": {"host": {"1": table("another")}}}})
    with parties.guest.unit() as unit:
        parties.guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "", True, "")
        parties.guest.side.advance(unit, JOB_ID)
    for kind in (K.PARAMETERS, K.STOP, K.STATUS):
        for party in HOSTS:
            if any(one.kind is kind and one.to == party for one in parties.guest.outbox()):
                parties.guest.answer(kind, None, party)         # the hosts miss the change, and the end
    with parties.guest.unit() as unit:
        parties.guest.side.rerun(unit, JOB_ID, RerunRequest())
    begun = parties.give(K.STATUS)
    assert all("parameters" in one.body for one in begun)
    assert len(set(parties.bindings())) == 1
    assert parties.foreign_tables(HOST, (*TABLES.values(), "another")) == []


def test_a_message_about_a_share_names_no_withheld_text() -> None:
    parties = Parties(in_fate_v1())
    with parties.guest.unit() as unit:
        message = "host 10001: a: demo.customers has no column, nor has salaries"
        parties.guest.side.request_stop(unit, JOB_ID, Reason.TASK_FAILED, message, False, "host 10001")
        parties.guest.side.advance(unit, JOB_ID)
    messages = {one.to: one.body["message"] for one in parties.guest.outbox() if one.kind in (K.STOP, K.STATUS)}
    assert messages[HOST] == f"host 10001: a: demo.{WITHHELD} has no column, nor has {WITHHELD}"
    assert messages[OTHER] == f"host 10001: a: demo.customers has no column, nor has {WITHHELD}"
    never = next(one for one in parties.guest.outbox() if one.kind is K.STATUS and one.to == HOST)
    with parties.guest.unit() as unit:
        assert unit.tx.take_command(never.id)
        assert parties.guest.side.give_up(unit, never)
        parties.guest.side.tell_again(unit, "10000")
    again = next(one for one in parties.guest.outbox() if one.kind is K.STATUS and one.to == HOST)
    assert (again.id != never.id, again.body["message"]) == (True, messages[HOST])
    asked = Harness(parties.guest).use_cases.commands
    [answer] = asked.carry_out([Command(K.STANDING, JOB_ID, GUEST, 0)], "10000")
    assert "customers" not in repr(answer)


@pytest.mark.parametrize(("texts", "message", "expected"), [
    ({"b"}, "demo.b is not a b, abc", f"demo.{WITHHELD} is not a {WITHHELD}, abc"),
    ({"b c", "b"}, "b c, b", f"{WITHHELD}, {WITHHELD}"),
    ({"(x)"}, "a(x)b", f"a{WITHHELD}b"),
    ({"x" * 70}, f"table '{'x' * 60}'...", f"table '{WITHHELD}'..."),
    ({"", "gone"}, "as it is", "as it is"),
])  # fmt: skip
def test_texts_are_replaced_where_they_are_words(texts: set[str], message: str, expected: str) -> None:
    assert without_texts(message, texts) == expected


def test_an_answer_that_says_only_success_is_not_looked_through() -> None:
    def redact(text: str) -> str:
        raise AssertionError(text)

    assert restricted_answer(Answer(), redact) == Answer()
    assert restricted_answer(Answer(3, "no"), str.upper) == Answer(3, "NO")


# ---------------------------------------------------------------------- attacks


def creates() -> dict[Party, Command]:
    """The `create` for each host."""
    guest = Initiator()
    with_tables(guest, TABLES[GUEST])
    guest.submit(in_fate_v1(), whole=())
    return {one.to: one for one in guest.outbox() if one.kind is K.CREATE}


def a_host() -> HandServer:
    host = HandServer("10000")
    with_tables(host, TABLES[HOST])
    return host


class ReadsPrograms:
    """A policy for which documents are parsed before the transaction."""

    reads_programs = True

    def objection(self, *_: Any) -> str:
        return ""


def test_nothing_is_withheld_from_its_own_party() -> None:
    """Approved would be one thing, and another one runs: the digest alone does not say what is here."""
    answer = a_host().handle(replace(creates()[OTHER], to=HOST))
    assert (answer.retcode, "withheld from that party itself" in answer.retmsg) == (101, True)


def test_a_document_of_the_same_digest_without_the_own_part_is_not_taken_for_it() -> None:
    """The initiator sends both in one request; what was read of the first must not count for the second."""
    sent, host = creates(), a_host()
    host.context = replace(host.context, program_policy=ReadsPrograms())
    stripped = replace(sent[OTHER], to=HOST)
    commands = Harness(host).use_cases.commands
    first, second = commands.carry_out([stripped, sent[HOST]], "9999")
    assert (first.is_ok, second.is_ok) == (False, True)
    assert spec(host).withheld == {GUEST, OTHER}
    again = replace(stripped, job_id=f"{JOB_ID}1")
    assert not host.handle(again).is_ok, "not even now that the document is known"


@pytest.mark.parametrize("change", [
    {"salts": {}}, {"salts": 3}, {"commitments": {"/gone": "0" * 64}}, [],
])  # fmt: skip
def test_a_wrong_disclosure_is_a_wrong_request(change: Any) -> None:
    honest = creates()[HOST]
    given = {**honest.body["disclosure"], **change} if change else change
    answer = a_host().handle(replace(honest, body={**honest.body, "disclosure": given}))
    assert (answer.retcode, answer.retmsg.split(":")[0].split(".")[0]) == (101, "disclosure")


def test_all_seats_of_a_party_have_the_same_parts_of_the_document() -> None:
    guest, here = Initiator(), Party("arbiter", "10000")
    with_tables(guest, TABLES[GUEST])
    document = in_fate_v1()
    roles = {**document.runtime_conf["role"], "arbiter": [10000]}
    guest.submit(replace(document, runtime_conf={**document.runtime_conf, "role": roles}), whole=())
    sent = {one.to: one for one in guest.outbox() if one.kind is K.CREATE}
    host, own = a_host(), row(guest, GUEST)
    assert host.handle(sent[HOST]).is_ok
    assert own.disclosure is not None
    whole = as_given_to(replace(own, disclosure=replace(own.disclosure, whole=("10000",))), "10000")
    body = create_body(whole, spec(guest), JOB_ID, {})
    answer = host.handle(replace(sent[here], body=body))
    assert (answer.retcode, "other parts of its document here" in answer.retmsg) == (108, True)
    assert host.handle(sent[here]).is_ok


def test_another_commitment_is_another_job() -> None:
    honest = creates()[HOST]
    host = a_host()
    assert host.handle(honest).is_ok
    commitments = dict.fromkeys(honest.body["disclosure"]["commitments"], "0" * 64)
    other = {**honest.body["disclosure"], "commitments": commitments}
    answer = host.handle(replace(honest, body={**honest.body, "disclosure": other}))
    assert (answer.retcode, "has another document here" in answer.retmsg) == (108, True)


def as_it_is(body: Body) -> Body:
    return body


def of_an_earlier_release(body: Body) -> Body:
    return {**body, "extensions": {key: 1 for key in body["extensions"] if key != "disclosure"}}


def of_fate(body: Body) -> Body:
    return {key: value for key, value in body.items() if key != "extensions"}


WHOLE = ("10000", "10001")


@pytest.mark.parametrize(("other", "whole", "lie"), [
    (in_fate_v1(**{"guest 9999": "another"}), (), as_it_is),
    (in_fate_v1(**{"guest 9999": "another"}), WHOLE, as_it_is),
    (in_fate_v1(**{"guest 9999": "another"}), WHOLE, of_an_earlier_release),
    (in_fate_v1(**{"guest 9999": "another"}), WHOLE, of_fate),
    (as_file(), (), as_it_is),
], ids=["other parameters", "the whole", "as an earlier release", "as a server of FATE", "another format"])  # fmt: skip
def test_hosts_that_get_different_documents_notice_it(other: Document, whole: Collection[str], lie: Lie) -> None:
    """The coordinator decides what it says about itself, so nothing that it says keeps a host from comparing."""
    worlds = Parties(in_fate_v1()), Parties(other, whole, lie)
    for world in worlds:
        world.all_begin()
    [one], [two] = (world.hosts[party].engine.launched for world, party in zip(worlds, HOSTS, strict=True))
    assert (one.worker.task.task_id, one.incarnation) == (two.worker.task.task_id, two.incarnation)
    why = why_other_document("host 10000", one.document, "host 10001", two.document)
    assert why.startswith("the coordinator gave the two parties different documents: host 10000 runs ")
