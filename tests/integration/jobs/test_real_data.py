"""Data in and out of a real server, through the real components: every way to write a CSV file, what is refused and
why, what stays behind (nothing), and how much memory a large file takes (little)."""

from __future__ import annotations

import csv
import io
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import pytest

from fate_flow.cli.server import service
from fate_flow.engines.local.spawner import SPAWNER
from tests.kit.peak import PeakMeter, begin_anew, peak
from tests.kit.servers.party_servers import GUEST, HOST, Answer, Cluster, PartyServer, csv_text, job_of
from tests.kit.signing import signed_lines
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

MB = 1024 * 1024
LONG = "ä" * MB


def upload(guest: PartyServer, name: str, content: bytes, **conf: object) -> Answer:
    answer = guest.upload(name, content, **conf)      # type: ignore[arg-type]  # the file as it is
    assert answer["retcode"] == 0, answer
    return answer


def download(guest: PartyServer, name: str, **conf: object) -> bytes:
    """The file that a download of this table writes."""
    path = guest.home / "downloads" / f"{name}.csv"
    described = {"namespace": "it", "table_name": name, "output_path": str(path), **conf}
    guest.wait(guest.post("data/download", described)["jobId"], "success")
    return path.read_bytes()


def info(guest: PartyServer, name: str) -> Any:
    return guest.ask("table/table_info", {"namespace": "it", "table_name": name})


def rows_of(content: bytes, delimiter: str = ",") -> list[list[str]]:
    csv.field_size_limit(4 * MB)
    return list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter, strict=True))


# ---------------------------------------------------------------------- files that are taken

TAKEN = {
    "plain": (b"id,x,y\nb,1,2\na,3,4\n", {}, "id x y", [["b", "1", "2"], ["a", "3", "4"]]),
    "crlf": (b"id,x\r\n1,2\r\n", {}, "id x", [["1", "2"]]),
    "bom": (b"\xef\xbb\xbfid,x\n1,\xc3\xa4\n", {}, "id x", [["1", "ä"]]),
    "bom before a quote": (b'\xef\xbb\xbf"id","x"\r\n1,2\r\n', {}, "id x", [["1", "2"]]),
    "no newline at the end": (b"id,x\n1,2", {}, "id x", [["1", "2"]]),
    "empty lines": (b"\nid,x\n\n1,2\n\r\n\n", {}, "id x", [["1", "2"]]),
    "tabs": (b"id\tx\n1\ta,b\n", {"id_delimiter": "\t"}, "id x", [["1", "a,b"]]),
    "semicolons": (b'id;x\n1;"a;b"\n', {"id_delimiter": ";"}, "id x", [["1", "a;b"]]),
    "pipes": (b"id|x\n1|a,b;c\n", {"id_delimiter": "|"}, "id x", [["1", "a,b;c"]]),
    "delimiters in quotes": (b'id,x\n"1,2","a,b"\n', {}, "id x", [["1,2", "a,b"]]),
    "quotes in quotes": (b'id,x\n1,"say ""it"""\n2,""\n', {}, "id x", [["1", 'say "it"'], ["2", ""]]),
    "lines in quotes": (b'id,x\n1,"a\nb\r\nc"\n2,d\n', {}, "id x", [["1", "a\nb\r\nc"], ["2", "d"]]),
    "a carriage return in quotes": (b'id,x\n1,"a\rb"\n', {}, "id x", [["1", "a\rb"]]),
    "blanks": (b"id,x\n 1 ,  2\n", {}, "id x", [[" 1 ", "  2"]]),
    "empty values": (b"id,x,y\n1,,\n", {}, "id x y", [["1", "", ""]]),
    "ids alone": (b"id\n2\n1\n", {}, "id", [["2"], ["1"]]),
    "long fields": (f"id,x\n1,{LONG}\n".encode(), {}, "id x", [["1", LONG]]),
    "no header": (b"7,8\n9,10\n", {"head": 0}, "sid x0", [["7", "8"], ["9", "10"]]),
    "an id twice": (b'id,x\n1,"a\nb"\n2,b\n\n1,c\n', {}, "id x", [["2", "b"], ["1", "c"]]),
    "duplicate ids": (
        b"id,x\n7,8\n7,9\n", {"extend_sid": True, "auto_increasing_sid": True}, "sid id x",
        [["0", "7", "8"], ["1", "7", "9"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_a_file_comes_in_and_its_rows_come_out(on_sqlite: Cluster, case: str) -> None:
    content, conf, columns, rows = TAKEN[case]
    guest, (sid, *header) = on_sqlite.guest, columns.split()
    job_id = upload(guest, case, content, drop=1, **conf)["jobId"]
    guest.wait(job_id, "success")
    found = info(guest, case)
    schema = {"header": header, "sid": sid}
    assert (found["count"], found["schema"], found["partition"]) == (len(rows), schema, 2)
    assert found["extend_sid"] is bool(conf.get("extend_sid"))
    place = {"job_id": job_id, "role": "local", "party_id": "0", "component_name": "upload_0"}
    said = guest.ask("tracking/component/summary/download", place)
    assert (said["upload_count"], said["schema"]) == (len(rows), schema)
    written = download(guest, case)
    assert rows_of(written) == [[sid, *header], *rows]
    assert not written.startswith(b"\xef\xbb\xbf")


def test_what_a_download_wrote_can_be_uploaded(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    odd = ["a,b", 'say "it"', "l\nm", "n\r\no", "p\rq", " ", "", "ä", ";|", "\t", "'", '"', "\n", "\r", "\\"]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["id", "x"], *([str(n), one] for n, one in enumerate(odd))])
    for content in (text.getvalue().encode(), b""):
        guest.wait(upload(guest, "odd", content or download(guest, "odd"), drop=1)["jobId"], "success")
    assert [row[1] for row in rows_of(download(guest, "odd"))] == ["x", *odd]


def test_ids_that_are_made_up_differ(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    guest.wait(upload(guest, "made up", b"id,x\n7,8\n7,8\n", drop=1, extend_sid=1)["jobId"], "success")
    _, *rows = rows_of(download(guest, "made up", delimiter="\t"), "\t")
    assert [row[1:] for row in rows] == [["7", "8"], ["7", "8"]]
    assert rows[0][0] != rows[1][0]


def test_counted_ids_alone_have_no_effect(on_sqlite: Cluster) -> None:
    """As FATE has it, which does not say so."""
    answer = upload(on_sqlite.guest, "counted", b"id,x\n7,8\n", drop=1, auto_increasing_sid=1)
    assert answer["data"]["warnings"] == ["auto_increasing_sid: has no effect without extend_sid"]
    on_sqlite.guest.wait(answer["jobId"], "success")
    assert info(on_sqlite.guest, "counted")["schema"]["sid"] == "id"


# ---------------------------------------------------------------------- files that are not

REFUSED = {
    "too few fields": (b"id,x,y\n1,2,3\n4,5\n", "line 3: 2 fields, where 3 are expected"),
    "too many fields": (b"id,x\n1,2\n\n3,4,5\n", "line 4: 3 fields, where 2 are expected"),
    "ragged behind long rows": (b'id,x\n1,"a\nb\nc"\n2,"d\ne",3\n', "line 5: 3 fields, where 2 are expected"),
    "latin-1": (b"id,x\n1,2\n2,caf\xe9\n", "line 3: byte 6 is not UTF-8"),
    "utf-16": ("id,x\n1,2\n".encode("utf-16"), "line 1: the file is UTF-16: save it as UTF-8"),
    "nul": (b"id,x\n1,2\n3,a\0b\n", "line 3: byte 4 is NUL"),
    "an open quote": (b'id,x\n1,2\n2,"a\n3,b\n', "line 3: a field begins with a quote that is not closed"),
    "letters behind a quote": (b'id,x\n1,"a"b\n', "line 2: ',' expected after '\"'"),
    "carriage returns": (b"id,x\r1,2\r", "line 1: a carriage return outside of quotes"),
    "header only": (b"id,x\n", "the file has no rows"),
    "a column twice": (b"id,x,x\n1,2,3\n", "line 1: columns 2 and 3 have the same name"),
    "no id": (b"id,x\n1,2\n,3\n", "line 3: the id is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_refused_leaves_nothing(on_sqlite: Cluster, case: str) -> None:
    content, text = REFUSED[case]
    guest = on_sqlite.guest
    row = guest.wait(upload(guest, case, content)["jobId"], "failed")
    assert f"the file for table {case!r}" in row["f_message"]
    assert text in row["f_message"]
    assert info(guest, case)["exist"] == 0
    assert not [path for path in guest.files() if path.startswith("data") and quote(case) in path]


def test_an_id_that_is_there_twice_may_be_refused(on_sqlite: Cluster) -> None:
    guest, content = on_sqlite.guest, b'id,x\n1,"a\nb"\n2,b\n\n1,c\n'
    row = guest.wait(upload(guest, "refused", content, duplicate_ids="refuse")["jobId"], "failed")
    assert "lines 2 and 6: both have the same id; with duplicate_ids: last the later row is kept" in row["f_message"]
    assert info(guest, "refused")["exist"] == 0


def test_rows_that_gave_way_are_counted_wherever_the_upload_is_told_of(on_sqlite: Cluster) -> None:
    """By default the last row of an id is the one, as with FATE, which does not say so."""
    guest = on_sqlite.guest
    job_id = upload(guest, "gave way", b"id,x\na,1\nb,2\na,3\na,4\n", drop=1)["jobId"]
    guest.wait(job_id, "success")
    place = {"job_id": job_id, "role": "local", "party_id": "0", "component_name": "upload_0"}
    summary = guest.ask("tracking/component/summary/download", place)
    [described] = guest.ask("data/upload/history", {"job_id": job_id})
    for said in (summary, described[job_id]["upload_info"]):
        assert (said["upload_count"], said["replaced_rows"]) == (2, 2)
    found = info(guest, "gave way")
    assert (found["count"], found["replaced_rows"]) == (2, 2)
    assert download(guest, "gave way") == b"id,x\nb,2\na,4\n"


def test_a_file_that_is_refused_leaves_the_table_that_was_there(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    guest.has_table("kept", csv_text(["id", "x"], {"a": [1]}))
    guest.wait(upload(guest, "kept", b"id,x\n1\n", drop=1)["jobId"], "failed")
    assert (info(guest, "kept")["count"], download(guest, "kept")) == (1, b"id,x\na,1\n")


# ---------------------------------------------------------------------- a table that exists


def test_a_table_that_exists_is_replaced_only_by_drop(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    guest.has_table("twice", csv_text(["id", "x"], {"a": [1]}))
    refused = guest.upload("twice", "id\nb\n")
    assert (refused["retcode"], "--drop" in refused["retmsg"]) == (100, True)
    assert download(guest, "twice") == b"id,x\na,1\n"
    guest.wait(upload(guest, "twice", b"id\nb\nc\n", drop=1)["jobId"], "success")
    assert (info(guest, "twice")["count"], download(guest, "twice")) == (2, b"id\nb\nc\n")


@pytest.mark.parametrize("drop", [0, 1])
def test_two_uploads_of_one_table_at_once(on_sqlite: Cluster, drop: int) -> None:
    """One of them is the table, in whole; without --drop the other one fails."""
    guest, name = on_sqlite.guest, f"at once {drop}"
    with on_sqlite.held(GUEST):
        jobs = [upload(guest, name, b"id,x\n" + rows, drop=drop)["jobId"] for rows in (b"a,1\n", b"b,2\nc,3\n")]
    ends = [guest.wait(job_id) for job_id in jobs]
    statuses = sorted(row["f_status"] for row in ends)
    assert statuses == (["success", "success"] if drop else ["failed", "success"])
    assert not [row for row in ends if row["f_status"] == "failed" and "exists already" not in row["f_message"]]
    count, written = info(guest, name)["count"], download(guest, name)
    assert written in (b"id,x\na,1\n", b"id,x\nb,2\nc,3\n")
    assert count == len(written.splitlines()) - 1


def test_tables_are_read_after_a_restart(on_sqlite: Cluster) -> None:
    guest = on_sqlite.guest
    content = b'id,x\nb,"1\n2"\na,"say ""it"""\n'
    guest.wait(upload(guest, "lasting", content, drop=1)["jobId"], "success")
    before = info(guest, "lasting")
    on_sqlite.kill(GUEST)
    on_sqlite.start(GUEST)
    assert info(guest, "lasting") == before
    assert download(guest, "lasting") == content


# ---------------------------------------------------------------------- on the way


@pytest.mark.parametrize("ending", ["closed", "reset"])
def test_an_upload_that_is_cut_leaves_nothing(on_sqlite: Cluster, ending: str) -> None:
    """What has come by then is on disk, and goes."""
    guest = on_sqlite.guest
    address = urlsplit(guest.url)
    query = quote(json.dumps({"namespace": "it", "table_name": "cut", "head": 1, "partition": 1, "file": "cut.csv"}))
    path = f"/v1/data/upload?{query}"
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="cut.csv"\r\n\r\n'
    with on_sqlite.unchanged(), socket.create_connection((address.hostname, address.port), timeout=30) as line:
        line.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {64 * MB}\r\n"
            f"{signed_lines(guest.home, path)}Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode()
            + head + b"id,x\n" * MB
        )
        eventually(lambda: [one for one in parts(guest) if one.stat().st_size > 4 * MB], "five megabytes on disk")
        if ending == "reset":
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    eventually(lambda: not parts(guest), "the part is removed")
    assert info(guest, "cut")["exist"] == 0


def parts(guest: PartyServer) -> list[Path]:
    return list((guest.home / "uploads").glob("*.part"))


# ---------------------------------------------------------------------- memory

SIZE = 32 * MB
PIECES = 8 * MB                  # what is on its way at one time
CACHE = 16 * MB                  # SQLite's


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    path = tmp_path / "large.csv"
    row = ",".join(["0.123456"] * 100)
    with path.open("w") as file:
        file.write("id," + ",".join(f"x{number}" for number in range(100)) + "\n")
        file.writelines(f"{number * 2654435761 % 2**32:08x},{row}\n" for number in range(SIZE // len(row)))
    return path


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_large_file_takes_little_memory_at_all_three(on_sqlite: Cluster, large_file: Path, tmp_path: Path) -> None:
    guest = on_sqlite.guest
    small = tmp_path / "small.csv"
    small.write_text("id,x0\n1,2\n")
    usual, job_id = upload_by_flow(guest, small)
    guest.wait(job_id, "success")
    running = service.find(guest.home)
    assert running is not None
    server = psutil.Process(running.pid)
    [spawner] = [one for one in server.children() if one.name() == SPAWNER]
    eventually(lambda: not spawner.children(), "the end of the last runner")
    processes = [one for one in server.children(recursive=True) if one.pid != spawner.pid]
    before = {one.pid: one.memory_info().rss for one in processes}
    for one in processes:
        begin_anew(one.pid)
    with on_sqlite.held(GUEST):
        flow, job_id = upload_by_flow(guest, large_file)
    worker = worker_peak(guest, job_id, "upload_0", spawner)
    growth = {one.pid: peak(one.pid) - before[one.pid] for one in processes}
    assert max(growth.values()) < PIECES, growth
    assert flow - usual < PIECES
    assert worker < PIECES + CACHE
    rows = sum(1 for _ in large_file.open()) - 1
    assert info(guest, "large")["count"] == rows

    path = guest.home / "downloads" / "large.csv"
    body = {"namespace": "it", "table_name": "large", "output_path": str(path)}
    with on_sqlite.held(GUEST):
        job_id = guest.post("data/download", body)["jobId"]
    assert worker_peak(guest, job_id, "download_0", spawner) < PIECES
    assert path.read_bytes() == large_file.read_bytes()
    path.unlink()
    guest.ask("table/delete", {"namespace": "it", "table_name": "large"})


def upload_by_flow(guest: PartyServer, path: Path) -> tuple[int, str]:
    """The peak of `flow data upload`, and the job."""
    conf = path.with_suffix(".json")
    conf.write_text(json.dumps({
        "file": str(path), "head": 1, "partition": 1, "namespace": "it", "table_name": path.stem, "task_cores": 1,
    }))  # fmt: skip
    argv = [str(Path(sys.executable).with_name("flow")), "--server", guest.url, "data", "upload", "-c", str(conf)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*argv, "--drop"], **pipes) as process, PeakMeter(process.pid) as meter:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, b""), "and no progress bar, since nobody looks"
    return meter.bytes, str(json.loads(out)["jobId"])


def worker_peak(guest: PartyServer, job_id: str, component: str, spawner: psutil.Process) -> int:
    """How much larger the worker became than the process that it was forked from."""
    begun = spawner.memory_info().rss
    with PeakMeter(guest.worker_of(job_id, component).worker.pid) as meter:
        guest.wait(job_id, "success", seconds=200)
    assert meter.bytes, "the worker was seen"
    return meter.bytes - begun


# ---------------------------------------------------------------------- tables that are taken out of use


def test_a_disabled_table_is_read_by_no_job(on_sqlite: Cluster) -> None:
    guest, host = on_sqlite.guest, on_sqlite.host
    table = {"namespace": "it", "table_name": "hidden"}
    for server in (guest, host):
        server.has_table("hidden", csv_text(["id", "x"], {"1": [2]}))
    parts = {"namespace": "it", "name": "hidden"}
    read = job_of({"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}, {"guest": [GUEST], "host": [HOST]},
                  common={"reader_0": {"table": parts}})
    to_file = {"download_0": {**parts, "output_path": str(guest.home / "downloads" / "hidden.csv")}}
    written = job_of({"download_0": {"module": "Download"}}, {"guest": ["0"]}, common=to_file)
    written["job_runtime_conf"] |= {"initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]}}
    on_sqlite.run(read)
    host.ask("table/disable", table)
    assert "table it.hidden is missing or disabled at host 10000" in _refused(guest, read), "another party's table"
    host.ask("table/enable", table)
    guest.ask("table/disable", table)
    assert "guest 9999" in _refused(guest, read)
    assert "local 0" in _refused(guest, written)
    guest.ask("table/enable", table)
    guest.wait(guest.submit(written)["jobId"], "success")


def test_what_a_reader_handed_on_is_not_what_the_table_became(on_sqlite: Cluster) -> None:
    guest, host = on_sqlite.guest, on_sqlite.host
    for server in (guest, host):
        server.has_table("changing", csv_text(["id", "x"], {"1": [2]}))
    reads = {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}
    table = {"reader_0": {"table": {"namespace": "it", "name": "changing"}}}
    job_id = on_sqlite.run(job_of(reads, {"guest": [GUEST], "host": [HOST]}, common=table))
    seat = {"job_id": job_id, "role": "guest", "party_id": GUEST, "component_name": "reader_0"}
    assert guest.raw("GET", "tracking/component/output/data/download", json=seat).status_code == 200
    guest.has_table("changing", csv_text(["id", "x"], {"9": [9]}))
    answer = guest.raw("GET", "tracking/component/output/data/download", json=seat)
    assert (answer.status_code, answer.json()["retmsg"]) == (
        210, "no data: it.changing was deleted or replaced since")


def _refused(guest: PartyServer, document: dict[str, Any]) -> str:
    answer = guest.submit(document)
    message = str(answer["retmsg"])
    is_named = "table it.hidden is disabled" in message or "table it.hidden is missing or disabled" in message
    assert (answer["retcode"], is_named) == (103, True), answer
    return message
