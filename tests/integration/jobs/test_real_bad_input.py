"""What cannot be done is refused with a retcode and a message that names what is at fault, and leaves nothing
behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit.servers.home_files import paths_below
from tests.kit.servers.party_servers import (
    EVERYBODY,
    GUEST,
    OTHER,
    READER,
    Answer,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

Document = dict[str, Any]
REFUSED = 103


@pytest.fixture(autouse=True)
def _numbers(request: pytest.FixtureRequest) -> None:
    """Every party has the table that the three-party job reads: nothing but what a test spoils speaks against it."""
    name = "cluster" if "cluster" in request.fixturenames else "on_sqlite"
    request.getfixturevalue(name).has_table("numbers")




def three_party_job(**parameters: Any) -> Document:
    return job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, EVERYBODY,
        common={"reader_0": table_named("numbers"), "sum_0": {"column": "x"}}, parameters=parameters,
    )


def changed(path: str, value: object) -> Document:
    """The three-party job with another value at this path, without the key when it is None."""
    document = deepcopy(three_party_job())
    *parents, last = path.split("/")
    inside: Any = document
    for key in parents:
        inside = inside[key]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return document


def assert_refused(answer: Answer, retcode: int, *fragments: str) -> None:
    assert answer["retcode"] == retcode, answer
    assert [one for one in fragments if one not in answer["retmsg"]] == [], answer["retmsg"]
    assert "Traceback" not in json.dumps(answer)
    assert "data" not in answer


# ---------------------------------------------------------------------- documents

CONF = "job_runtime_conf"
LOOP = {
    "a_0": {"module": "SecureSum", "input": {"data": {"data": ["b_0.x"]}}, "output": {"data": ["x"]}},
    "b_0": {"module": "SecureSum", "input": {"data": {"data": ["a_0.x"]}}, "output": {"data": ["x"]}},
}


@pytest.mark.parametrize(("path", "value", "fragments"), [
    (f"{CONF}/role", None, ["job_runtime_conf.role: is missing"]),
    (f"{CONF}/initiator", None, ["job_runtime_conf.initiator: is missing"]),
    (f"{CONF}/dsl_version", None, ["job_runtime_conf.dsl_version: is missing"]),
    ("job_dsl/components", None, ["dsl.components: is missing"]),
    ("job_dsl/components/sum_0/module", None, ["dsl.components.sum_0.module: is missing"]),
    (f"{CONF}/component_parameters/common/sum_0", {}, ["sum_0 at guest 9999", "column is missing"]),
    (f"{CONF}/role", "guest", ["job_runtime_conf.role", "is not an object"]),
    (f"{CONF}/role/host", 10000, ["job_runtime_conf.role.host", "is not a list"]),
    (f"{CONF}/role/host", ["ten"], ["job_runtime_conf.role.host[0]", "'ten'", "is not a party id"]),
    (f"{CONF}/job_parameters/common/task_cores", "many", ["job_parameters.common.task_cores", "'many'"]),
    (f"{CONF}/job_parameters/common/timeout", -1, ["job_parameters.common.timeout", "-1"]),
    ("job_dsl/components", [], ["dsl.components", "a list is not an object"]),
    ("job_dsl/components/sum_0/input", ["raw"], ["dsl.components.sum_0.input", "is not an object"]),
    (f"{CONF}/component_parameters/common/sum_0/column", 7, ["sum_0 at guest 9999", "column: 7 is not"]),
    (f"{CONF}/component_parameters/common/sum_0/need_run", "no", ["sum_0.need_run", "'no'"]),
    ("job_dsl/components", LOOP, ["dsl.components", "loop", "a_0", "b_0"]),
    ("job_dsl/components/sum_0/module", "HeteroMagic", ["dsl.components.sum_0.module", "'HeteroMagic'"]),
    ("job_dsl/components/sum_0/input", {"data": {"data": ["nobody_0.raw"]}}, ["sum_0.input.data", "'nobody_0'"]),
    (f"{CONF}/initiator", {"role": "guest", "party_id": 9998}, ["job_runtime_conf.initiator", "guest 9998 is not in"]),
    (f"{CONF}/role/host", [10000, 4711], ["job_runtime_conf.role", "party 4711 has no route here"]),
    (f"{CONF}/job_parameters/common/task_cores", 21, ["guest 9999", "21 cores", "at most 20"]),
])
def test_a_document_that_is_wrong_is_refused_at_the_initiator(
    on_sqlite: Cluster, path: str, value: object, fragments: list[str]
) -> None:
    with on_sqlite.unchanged():
        assert_refused(on_sqlite.guest.submit(changed(path, value)), REFUSED, *fragments)


@pytest.mark.parametrize(("body", "missing"), [
    ({}, "job_dsl,job_runtime_conf"),
    ({"job_dsl": {}}, "job_runtime_conf"),
    ({"job_runtime_conf": {}}, "job_dsl"),
])
def test_a_submit_without_its_documents_is_no_submit(on_sqlite: Cluster, body: Document, missing: str) -> None:
    with on_sqlite.unchanged():
        assert_refused(on_sqlite.guest.post("job/submit", body), 101, f"required argument are missing: {missing}")


def test_a_body_that_is_no_json_is_no_submit(on_sqlite: Cluster) -> None:
    with on_sqlite.unchanged():
        answer = on_sqlite.guest.raw("POST", "job/submit", data=b"{not json").json()
        assert_refused(answer, 101, "the body is not a JSON object")


def test_a_submit_at_the_wrong_party_is_told_the_right_one(cluster: Cluster) -> None:
    with cluster.unchanged():
        answer = cluster.host.submit(toy())
        assert_refused(answer, REFUSED, "this server is party 10000", "submit the job at party 9999")


# ---------------------------------------------------------------------- other parties


def test_when_one_party_refuses_none_keeps_anything_and_the_error_names_it(cluster: Cluster) -> None:
    document = three_party_job()
    document[CONF]["job_parameters"]["role"] = {"host": {"1": {"task_cores": 50}}}
    with cluster.unchanged():
        answer = cluster.guest.submit(document)
        assert_refused(answer, REFUSED, "host 10001", "50 cores, more than a job may have at host 10001")
        assert "host 10000:" not in answer["retmsg"]


def test_after_a_refusal_the_request_id_takes_the_corrected_job(cluster: Cluster) -> None:
    document = three_party_job()
    document[CONF]["job_parameters"]["role"] = {"host": {"1": {"task_cores": 50}}}
    request_id = {"Idempotency-Key": f"corrected-{time.time_ns()}"}
    with cluster.unchanged():
        assert_refused(cluster.guest.submit(document, **request_id), REFUSED, "host 10001")
    job_id = cluster.submit(toy(), **request_id)
    cluster.wait(job_id, "success")
    assert cluster.submit(toy(), **request_id) == job_id
    again = cluster.guest.submit(document, **request_id)
    assert_refused(again, REFUSED, "was used for other content", job_id)


def test_a_party_that_is_down_is_named_and_the_others_keep_nothing(cluster: Cluster) -> None:
    with cluster.unchanged():
        cluster.kill(OTHER)
        try:
            for _ in range(2):      # the second does not even try
                assert_refused(cluster.guest.submit(three_party_job()), REFUSED, "host 10001", "party 10001")
        finally:
            cluster.start(OTHER)
    cluster.run(toy())


def test_a_refused_job_is_not_known_afterwards(on_sqlite: Cluster) -> None:
    before = {party_id: jobs_of(party) for party_id, party in on_sqlite.parties.items()}
    document = three_party_job()
    document[CONF]["job_parameters"]["role"] = {"host": {"0": {"task_cores": 50}}}
    answer = on_sqlite.guest.submit(document)
    assert answer["retcode"] == REFUSED
    assert "jobId" not in answer
    for party_id, party in on_sqlite.parties.items():
        eventually(partial(has_jobs, party, before[party_id]), f"party {party_id} has forgotten it")


def has_jobs(party: PartyServer, jobs: set[str]) -> bool:
    return jobs_of(party) == jobs


def jobs_of(party: PartyServer) -> set[str]:
    return {one["job_id"] for one in party.ask("job/list/job", {"limit": 1000})["jobs"]}


# ---------------------------------------------------------------------- data


def on_server(path: Path | str, name: str) -> Document:
    return {
        "file": str(path), "head": 1, "partition": 1, "id_delimiter": ",", "namespace": "it", "table_name": name,
        "use_local_data": 0,
    }


def test_an_upload_needs_its_keys(on_sqlite: Cluster) -> None:
    with on_sqlite.unchanged():
        answer = on_sqlite.guest.post("data/upload", {"file": "a.csv", "namespace": "it"})
        assert_refused(answer, 100, "required argument are missing: table_name,head,partition")


@pytest.mark.parametrize(("place", "fragments"), [
    (lambda home: home / "examples" / "missing.csv", ["missing.csv", "does not exist"]),
    (lambda home: home / "examples", ["examples", "is not a file"]),
    (lambda home: "/etc/passwd", ["'/etc/passwd'", "is not below", "data_roots"]),
    (lambda home: home / "examples" / ".." / "fate_flow.sqlite", ["fate_flow.sqlite", "is not below"]),
])
def test_an_upload_of_a_file_that_cannot_be_had_is_refused(
    on_sqlite: Cluster, place: Callable[[Path], object], fragments: list[str]
) -> None:
    with on_sqlite.unchanged():
        conf = on_server(str(place(on_sqlite.guest.home)), "never")
        assert_refused(on_sqlite.guest.post("data/upload", conf), 101, "file: ", *fragments)


def test_an_empty_file_is_refused_from_the_server_and_from_the_client(cluster: Cluster) -> None:
    examples = cluster.guest.home / "examples"
    examples.mkdir(exist_ok=True)
    (examples / "empty.csv").touch()
    with cluster.unchanged():
        answer = cluster.guest.post("data/upload", on_server(examples / "empty.csv", "never"))
        assert_refused(answer, 101, "empty.csv", "is empty")
        assert_refused(cluster.guest.upload("never", ""), 101, "file: 'never.csv' is empty")


@pytest.mark.parametrize(("text", "why"), [
    ("id,x\n", "the file has no rows"),
    ("id,x\na,1\nb,2\na,3\n", "lines 2 and 4: both have the same id"),
    ("id,x,x\na,1,2\n", "line 1: columns 2 and 3 have the same name"),
    ("id,id,x\na,1,2\n", "line 1: column 2 has the name of the id column"),
    ("id,x\na,1,2\n", "line 2: 3 fields, where 2 are expected"),
    ("id,x\n,1\n", "line 2: the id is missing"),
])
def test_a_csv_that_is_no_table_fails_its_job_and_leaves_no_table_and_no_file(
    on_sqlite: Cluster, text: str, why: str
) -> None:
    guest = on_sqlite.guest
    with on_sqlite.unchanged(besides=("t_job", "t_seat", "t_task", "t_worker", "t_submission", "jobs")):
        answer = guest.upload("never", text, duplicate_ids="refuse")
        assert answer["retcode"] == 0, answer
        row = guest.wait(answer["jobId"], "failed")
        assert why in row["f_message"]
        assert "Traceback" not in row["f_message"]
    explained = guest.ask("job/explain", {"job_id": answer["jobId"]})
    assert why in explained["tasks"][0]["parties"][0]["message"]
    assert guest.ask("table/table_info", {"namespace": "it", "table_name": "never"})["exist"] == 0


@pytest.mark.parametrize("name", ["a b&c", "../z", "\u00fcn\u00ef#1", "%2e%2e"])
def test_a_table_may_have_any_printable_name(cluster: Cluster, name: str) -> None:
    guest, data = cluster.guest, cluster.guest.home / "data"
    before = set(paths_below(data))
    guest.has_table(name, csv_text(["id", "x"], {"a": [1], "b": [2]}))
    table = {"namespace": "it", "table_name": name}
    assert guest.ask("table/table_info", table)["count"] == 2
    guest.ask("table/delete", table)
    assert guest.ask("table/table_info", table)["exist"] == 0

    def left() -> list[Path]:
        return [path for path in sorted(paths_below(data)) if path not in before and path.is_file()]

    # The answer follows the commit, and so does the removal of the file, in a thread of its own.
    eventually(lambda: not left(), lambda: f"the file of the table to go: {left()}")


@pytest.mark.parametrize("name", ["..", "a\nb", "", "x" * 201])
def test_a_name_that_no_table_can_have_is_refused(on_sqlite: Cluster, name: str) -> None:
    with on_sqlite.unchanged():
        answer = on_sqlite.guest.upload(name, csv_text(["id", "x"], {"a": [1]}))
        assert answer["retcode"] in (100, 101)
        assert "table_name" in answer["retmsg"]


def test_a_table_that_exists_is_replaced_only_when_told_to(cluster: Cluster) -> None:
    guest = cluster.guest
    guest.has_table("kept", csv_text(["id", "x"], {"a": [1], "b": [2]}))
    with cluster.unchanged():
        answer = guest.upload("kept", csv_text(["id", "x"], {"c": [3]}))
        assert_refused(answer, 100, "The data table already exists", "--drop", "'kept'")
    assert guest.ask("table/table_info", {"namespace": "it", "table_name": "kept"})["count"] == 2
    guest.has_table("kept", csv_text(["id", "x"], {"c": [3]}))
    assert guest.ask("table/table_info", {"namespace": "it", "table_name": "kept"})["count"] == 1


def test_a_job_over_a_table_that_is_not_there_is_refused_and_names_it(on_sqlite: Cluster) -> None:
    document = three_party_job()
    document[CONF]["component_parameters"]["common"]["reader_0"] = table_named("nowhere")
    with on_sqlite.unchanged():
        assert_refused(on_sqlite.guest.submit(document), 103, f"there is no table it.nowhere at guest {GUEST}")
