"""`/v1/tracker/...` on the workers' listener: what a worker records of its own task, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from fate_flow.api.between_parties.exchange import ForwardReply
from fate_flow.api.workers import tracker
from fate_flow.api.workers.worker import create_worker_app
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.job import JobKey, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.values import Document, Metric, OutputTable, TableMeta
from tests.kit.values import a_job

JOB = "20260101120000000000"
OUT = f"output_{JOB}"
GUEST, HOST = ("guest", "9999"), ("host", "10000")
KEY = TaskKey(JOB, "work_0", 2, Party(*GUEST))
OWN = f"{JOB}/work_0/{JOB}_work_0/2/guest/9999"
NOW = 1_700_000_000_000
METRIC = {"metric_namespace": "train", "metric_name": "loss"}
DATA = Path("/data")
URI = format_uri(DATA, OUT, "made")
ELSEWHERE = format_uri(Path("/etc"), OUT, "made")
OTHER_URI = format_uri(DATA, OUT, "other")
TABLE = {"namespace": OUT, "name": "made", "address": {"uri": URI}, "count": 3, "schema": {"header": ["x"]}}
OUTPUT = {"data_name": "data", "table_namespace": OUT, "table_name": "made"}
PATHS = (
    "metric_data/save", "metric_meta/save", "output_data_info/save", "output_data_info/read", "summary/save",
    "table_meta/create", "table_meta/get",
)  # fmt: skip


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None)
    for version, token in ((2, "own"), (3, "later")):
        spool.open(Session(JOB, f"{JOB}_work_0", version, "a1b2c3d4", *GUEST), (GUEST, HOST), f"{token}-token")
    return spool


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def looked_at() -> list[str]:
    """Jobs that the scheduler was asked to look at."""
    return []


@pytest.fixture
def ask(store: MemoryStore, spool: Spool, looked_at: list[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks as a worker whose tables are written, which `/data` has none of."""
    monkeypatch.setattr(tracker, "_made_by", lambda _: KEY.task_id)
    app = create_worker_app(
        spool, lambda *_: ForwardReply(200), 2, looked_at.append, 1 << 20, store, lambda: NOW, DATA
    )
    client: FlaskClient = app.test_client()

    def post(
        what: str, body: object = None, path: str = OWN, token: str = "own-token", group: str = "tracker"
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = client.post(f"/v1/{group}/{path}/{what}", json=body or {}, headers=headers)
        assert response.status_code == 200, response.data
        found: dict[str, Any] = response.json      # type: ignore[assignment]
        return found

    return post


# ---------------------------------------------------------------------- who asks


@pytest.mark.parametrize("headers", [
    {"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
], ids=str)  # fmt: skip
def test_every_route_refuses_what_a_web_page_sends(store: MemoryStore, spool: Spool, headers: dict[str, str]) -> None:
    """Also with a valid token: before anything is read of it."""
    app = create_worker_app(spool, lambda *_: ForwardReply(200), 2, lambda _: None, 1 << 20, store, lambda: NOW, DATA)
    paths = {rule.rule.replace("<", "").replace(">", "") for rule in app.url_map.iter_rules()}
    assert len(paths) >= len(PATHS)
    for path in sorted({*paths, f"/v1/tracker/{OWN}/table_meta/create", "/v1/nowhere"}):
        for method in ("GET", "POST"):
            described = {**headers, "Authorization": "Bearer own-token"}
            response = app.test_client().open(path, method=method, json=TABLE, headers=described)
            assert response.status_code == 403, (method, path, response.data)
    with store.reading() as tx:
        assert tx.table(OUT, "made") is None


# ---------------------------------------------------------------------- what is recorded


def test_a_table_that_the_task_has_not_written_is_not_recorded_as_its_own(
    store: MemoryStore, spool: Spool, tmp_path: Path
) -> None:
    app = create_worker_app(
        spool, lambda *_: ForwardReply(200), 2, lambda _: None, 1 << 20, store, lambda: NOW, tmp_path
    )
    uri = format_uri(tmp_path, OUT, "made")
    headers = {"Authorization": "Bearer own-token"}
    body = {**TABLE, "address": {"uri": uri}}
    for made_by, retcode in (
        (None, 101), (f"{JOB[:-1]}1_upload_0", 101), ("", 101), (f"{JOB}_other_0", 101), (f"{JOB}_work_0", 0),
    ):  # fmt: skip
        if made_by is not None:
            with TableWriter(uri, Schema(("x",)), made_by=made_by, overwrite=True) as writer:
                writer.add([("a", "1")])
        said = app.test_client().post(f"/v1/tracker/{OWN}/table_meta/create", json=body, headers=headers)
        assert said.json is not None
        assert said.json["retcode"] == retcode, said.json
    (tmp_path / OUT / "made.sqlite").write_bytes(b"something else")
    said = app.test_client().post(f"/v1/tracker/{OWN}/table_meta/create", json=body, headers=headers)
    assert said.json is not None
    assert said.json["retmsg"].endswith("the file there is not a table")


def test_a_metric_comes_in_pieces_and_its_meta_apart(ask: Ask, store: MemoryStore) -> None:
    pieces = [[["1", 0.5]], [{"key": "2", "value": 0.25, "timestamp": 7}]]
    for metrics in pieces:
        assert ask("metric_data/save", {**METRIC, "metrics": metrics, "job_level": False})["retcode"] == 0
    assert ask("metric_meta/save", {**METRIC, "metric_meta": {"type": "LOSS"}, "magic": 1})["retcode"] == 0
    with store.reading() as tx:
        assert tx.metrics(JOB, "work_0", KEY.party) == (
            Metric(KEY, "train", "loss", (("1", 0.5),), {}), Metric(KEY, "train", "loss", (("2", 0.25),), {}),
            Metric(KEY, "train", "loss", (), {"type": "LOSS"}),
        )  # fmt: skip


def test_a_table_and_that_the_task_put_it_out(ask: Ask, store: MemoryStore) -> None:
    assert ask("table_meta/create", TABLE)["retcode"] == 0
    assert ask("output_data_info/save", OUTPUT)["retcode"] == 0
    with store.reading() as tx:
        assert tx.table(OUT, "made") == TableMeta(
            OUT, "made", URI, 3, {"header": ["x"]}, origin="output", job_id=JOB, create_time=NOW)
        assert tx.outputs(JOB, "work_0", KEY.party) == (OutputTable(KEY, "data", OUT, "made", JOB),)
    found = ask("table_meta/get", {"namespace": OUT, "table_name": "made"})["data"]
    assert (found["count"], found["address"], found["schema"], found["disable"]) == (
        3, {"uri": URI}, {"header": ["x"]}, False)
    row = {
        "job_id": JOB, "component_name": "work_0", "task_id": f"{JOB}_work_0", "task_version": 2, "role": "guest",
        "party_id": "9999", **OUTPUT,
    }  # fmt: skip
    for body, rows in (({}, [row]), ({"data_name": "data"}, [row]), ({"data_name": "other"}, [])):
        assert ask("output_data_info/read", body)["data"] == rows
    assert ask("table_meta/create", {**TABLE, "count": "4"})["retcode"] == 0, "its own table may be told again"


def test_a_task_puts_out_so_many_tables_and_no_more(
    ask: Ask, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(tracker, "MOST_OUTPUTS", 2)
    ask("table_meta/create", TABLE)
    said = [ask("output_data_info/save", {**OUTPUT, "data_name": name}) for name in ("a", "b", "c", "b")]
    assert [one["retcode"] == 0 for one in said] == [True, True, False, True]
    assert "data_name: work_0 has put out 2 tables, which are the most" in said[2]["retmsg"]
    with store.reading() as tx:
        assert {one.data_name for one in tx.outputs(JOB, "work_0", KEY.party)} == {"a", "b"}


@pytest.mark.parametrize(("path", "body"), [
    ("summary/save", {"summary": {"a": "x" * 92}}), ("table_meta/create", {**TABLE, "schema": {"a": "x" * 92}}),
])  # fmt: skip
def test_a_schema_and_a_summary_fit_in_a_row(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:  # fmt: skip
    monkeypatch.setattr(tracker, "MOST_BYTES_OF_ROW", 101)
    assert ask(path, body)["retcode"] == 0
    monkeypatch.setattr(tracker, "MOST_BYTES_OF_ROW", 100)
    said = ask(path, body)
    assert (said["retcode"], said["retmsg"].endswith(": takes 101 bytes as JSON, and 100 are the most")) == (101, True)


def test_the_last_summary_stays(ask: Ask, store: MemoryStore) -> None:
    for total in (1, 2):
        assert ask("summary/save", {"summary": {"total": total}})["retcode"] == 0
    with store.reading() as tx:
        assert tx.summary(JOB, "work_0", KEY.party) == {"total": 2}


def test_a_worker_that_reports_is_looked_at(ask: Ask, looked_at: list[str]) -> None:
    """`/v1/party/.../report`: its words alone make no success."""
    assert ask("report", {"party_status": "success"}, group="party")["retcode"] == 0
    assert looked_at == [JOB]
    for token in ("", "no-token", "later-token"):
        assert ask("report", {"party_status": "success"}, token=token, group="party")["retcode"] == 108, token
    assert looked_at == [JOB]


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("what", PATHS)
@pytest.mark.parametrize(
    ("path", "token", "text"),
    [
        (OWN, "", "this is not the token of a running worker"),
        (OWN, "guessed", "this is not the token of a running worker"),
        (OWN, "later-token", "the token is not that of task"),
        (OWN.replace("/2/", "/3/"), "own-token", "the token is not that of task"),
        (OWN.replace(f"{JOB}_work_0", f"{JOB}_other_0"), "own-token", "the token is not that of task"),
        (OWN.replace("guest/9999", "host/10000"), "own-token", "the token is not that of task"),
        (OWN.replace("/work_0/", "/other_0/"), "own-token", "the token is not that of other_0"),
        (OWN.replace(JOB, "20260101120000000001"), "own-token", "the token is not that of task"),
    ],
)
def test_a_worker_speaks_for_its_own_task_alone(ask: Ask, what: str, path: str, token: str, text: str) -> None:
    said = ask(what, {}, path, token)
    assert (said["retcode"], text in said["retmsg"]) == (108, True), said


def test_a_session_that_has_ended_records_nothing(ask: Ask, spool: Spool) -> None:
    spool.close(Session(JOB, f"{JOB}_work_0", 2, "a1b2c3d4", *GUEST))
    assert ask("summary/save", {"summary": {"a": 1}})["retcode"] == 108


@pytest.mark.parametrize(
    ("what", "body", "text"),
    [
        ("metric_data/save", {}, "missing: metric_namespace,metric_name,metrics"),
        ("metric_data/save", {**METRIC, "metrics": "gAR9lC4="}, "metrics: must be a list of [key, value] (pickles"),
        ("metric_data/save", {**METRIC, "metrics": ["gAR9lC4="]}, "metrics: each must be [key, value]"),
        ("metric_data/save", {**METRIC, "metrics": [[1, 2, 3]]}, "metrics: each must be [key, value]"),
        ("metric_data/save", {**METRIC, "metric_name": 7, "metrics": []}, "metric_name: 7 is not a name"),
        ("metric_data/save", {**METRIC, "metric_namespace": "n" * 181, "metrics": []}, "metric_namespace: "),
        ("metric_meta/save", METRIC, "missing: metric_meta"),
        ("metric_meta/save", {**METRIC, "metric_meta": "gAR9lC4="}, "metric_meta: must be a JSON object (pickles"),
        ("output_data_info/save", {"data_name": "data"}, "missing: table_namespace,table_name"),
        ("output_data_info/save", {**OUTPUT, "data_name": ""}, "data_name: '' is not a name"),
        ("output_data_info/save", {**OUTPUT, "table_name": ["made"]}, "table_name: "),
        ("summary/save", {}, "missing: summary"),
        ("summary/save", {"summary": [1]}, "summary: must be a JSON object"),
        ("table_meta/create", {"name": "made"}, "missing: namespace,address"),
        ("table_meta/create", {**TABLE, "address": "here"}, "address: must be a JSON object"),
        ("table_meta/create", {**TABLE, "address": {}}, "address.uri: null: "),
        ("table_meta/create", {**TABLE, "address": {"uri": "/etc/passwd"}}, "is not of the form standalone://"),
        ("table_meta/create", {**TABLE, "address": {"uri": OTHER_URI}}, "is not the table"),
        ("table_meta/create", {**TABLE, "address": {"uri": ELSEWHERE}}, "does not lie in /data"),
        ("table_meta/create", {**TABLE, "count": -1}, "count: -1 is not a whole number"),
        ("table_meta/create", {**TABLE, "count": True}, "count: true is not a whole number"),
        ("table_meta/create", {**TABLE, "schema": "x"}, "schema: must be a JSON object"),
        ("table_meta/get", {"namespace": OUT}, "missing: table_name"),
        ("table_meta/get", {"namespace": OUT, "table_name": "gone"}, "has made no table"),
        ("magic/save", {}, "no such path: workers cannot record 'magic/save'"),
    ],
)
def test_what_is_not_well_formed_records_nothing(
    ask: Ask, store: MemoryStore, what: str, body: dict[str, Any], text: str
) -> None:
    said = ask(what, body)
    assert (said["retcode"], text in said["retmsg"]) == (101, True), said
    with store.reading() as tx:
        found = tx.metrics(JOB, "work_0", KEY.party), tx.outputs(JOB, "work_0", KEY.party), tx.table(OUT, "made")
        assert (found, tx.summary(JOB, "work_0", KEY.party)) == (((), (), None), None)


def test_a_table_of_another_job_is_not_taken_over(ask: Ask, store: MemoryStore) -> None:
    theirs = TableMeta(OUT, "made", URI, 9, {}, job_id="20260101120000000001")
    with store.transaction() as tx:
        tx.save_table(theirs, NOW)
    said = ask("table_meta/create", TABLE)
    assert (said["retcode"], said["retmsg"]) == (101, f"name: table {OUT}.made belongs to another job")
    with store.reading() as tx:
        assert tx.table(OUT, "made").count == 9


OTHERS = (
    TableMeta("it", "secret", format_uri(DATA, "it", "secret"), 9, {"header": ["pin"]}, origin="upload", job_id="1"),
    TableMeta(OUT, "of another", OTHER_URI, 9, {}, origin="output", job_id="20260101120000000001"),
    TableMeta(OUT, "uploaded", OTHER_URI, 9, {}, origin="upload", job_id=JOB),
)


@pytest.mark.parametrize("theirs", OTHERS, ids=lambda one: one.name)
def test_a_table_that_the_job_has_not_made_is_neither_handed_on_nor_described(
    ask: Ask, store: MemoryStore, theirs: TableMeta
) -> None:
    """It would reach the next task of the job without having been granted; and whether it is there is not said."""
    with store.transaction() as tx:
        tx.save_table(theirs, NOW)
    saved = {"data_name": "data", "table_namespace": theirs.namespace, "table_name": theirs.name}
    for what, body in (
        ("output_data_info/save", saved), ("output_data_info/save", {**saved, "table_name": "gone"}),
        ("table_meta/get", {"namespace": theirs.namespace, "table_name": theirs.name}),
    ):
        said = ask(what, body)
        name = body["table_name"]
        assert (said["retcode"], said["retmsg"]) == (
            101, f"table_name: job {JOB} has made no table {theirs.namespace}.{name}"
        )  # fmt: skip
    with store.reading() as tx:
        assert tx.results_of(JOB) == ()


def test_no_output_has_the_name_that_says_read(ask: Ask) -> None:
    assert ask("table_meta/create", TABLE)["retcode"] == 0
    said = ask("output_data_info/save", {**OUTPUT, "data_name": "(read)"})
    assert (said["retcode"], said["retmsg"]) == (101, "data_name: (read) is no name of an output")


def test_a_table_is_not_registered_under_a_name_that_is_not_of_the_job(ask: Ask, store: MemoryStore) -> None:
    for namespace in ("it", f"{OUT}12345", f"x{OUT}", JOB):       # also of jobs whose ids begin with this one
        uri = format_uri(DATA, namespace, "made")
        said = ask("table_meta/create", {**TABLE, "namespace": namespace, "address": {"uri": uri}})
        assert said["retmsg"] == f"namespace: '{namespace}' is not {OUT}, where tables of this job lie"
        with store.reading() as tx:
            assert tx.table(namespace, "made") is None


def test_a_table_that_was_disabled_stays_so(ask: Ask, store: MemoryStore) -> None:
    assert ask("table_meta/create", TABLE)["retcode"] == 0
    with store.transaction() as tx:
        tx.save_table(replace(tx.table(OUT, "made"), is_disabled=True), NOW)
    assert ask("table_meta/create", TABLE)["retcode"] == 0
    with store.reading() as tx:
        assert tx.table(OUT, "made").is_disabled


@pytest.mark.parametrize("what", ["model/save", "model/get", "model/run_parameters/get", "component_model/save"])
def test_models_are_not_kept(ask: Ask, what: str) -> None:
    said = ask(what, {"model_id": "m", "model_version": "1"})
    assert (said["retcode"], said["retmsg"].startswith("this server does not store models")) == (100, True)


# ---------------------------------------------------------------------- the documents of its job

SEAT = {"job_id": JOB, "role": "guest", "party_id": "9999"}


@pytest.fixture
def asked(store: MemoryStore, spool: Spool) -> Ask:
    app = create_worker_app(spool, lambda *_: ForwardReply(200), 2, lambda _: None, 1 << 20, store, lambda: NOW, DATA)

    def post(body: object, token: str = "own-token") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        response = app.test_client().post("/v1/operation/job_config/get", json=body, headers=headers)
        return {"status": response.status_code, **(response.json or {})}

    return post


@pytest.fixture
def with_job(store: MemoryStore) -> None:
    with store.transaction() as tx:
        for party in (Party(*HOST), Party(*GUEST)):
            job = replace(a_job(JobStatus.READY, party), key=JobKey(JOB, party))
            tx.add_job(job, Document({"components": {}}, {"dsl_version": 2}, {"role": party.role}))


@pytest.mark.usefixtures("with_job")
@pytest.mark.parametrize("more", [{}, {"task_id": f"{JOB}_work_0", "task_version": 2, "component_name": "work_0"}])
def test_the_documents_of_the_workers_own_job(asked: Ask, more: dict[str, Any]) -> None:
    """Those of its own seat: the party may have another one."""
    assert asked({**SEAT, **more})["data"] == {
        "dsl": {"components": {}}, "runtime_conf": {"dsl_version": 2}, "runtime_conf_on_party": {"role": "guest"},
        "train_runtime_conf": {},
    }  # fmt: skip


@pytest.mark.usefixtures("with_job")
@pytest.mark.parametrize(("body", "token", "status", "retcode"), [
    (SEAT, "nobody's", 200, 108),
    ({**SEAT, "role": "host", "party_id": "10000"}, "own-token", 200, 108),
    ({**SEAT, "job_id": "20260101120000000001"}, "own-token", 200, 108),
    ({**SEAT, "task_id": f"{JOB}_other_0"}, "own-token", 200, 108),
    ({**SEAT, "task_version": 3}, "own-token", 200, 108),
    ({**SEAT, "task_version": "x"}, "own-token", 400, 400),
    ({**SEAT, "role": "nobody"}, "own-token", 400, 400),
    ({"job_id": JOB}, "own-token", 400, 400),
])
def test_the_documents_are_not_for_others(
    asked: Ask, body: dict[str, Any], token: str, status: int, retcode: int
) -> None:
    said = asked(body, token)
    assert (said["status"], said["retcode"], "data" in said) == (status, retcode, False)


def test_the_documents_of_a_job_that_is_gone(asked: Ask) -> None:
    said = asked(SEAT)
    assert (said["status"], said["retmsg"]) == (404, f"job {JOB} on guest 9999 is not known here")
