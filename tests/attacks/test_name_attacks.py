"""Names that leave a folder, reach SQL or a shell, forge a log or an object: a running server refuses all of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.kit.attacks.attacked_server import (
    HOSTILE,
    OWN,
    AttackedServer,
    create_body,
    new_job_id,
    reader,
    task_path,
)
from tests.kit.servers.home_files import contents_below
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("kept_connections")]

LEFT = "left-by-an-attack"
NAMES = (
    f"../../{LEFT}", f"/tmp/{LEFT}", f"..%2f..%2f{LEFT}", f"a;touch {LEFT}", f"$(touch {LEFT})", f"`touch {LEFT}`",
    f"a|touch {LEFT}", f"-o{LEFT}", f"a\n{LEFT}", f"a\0{LEFT}", f"{LEFT}'; DROP TABLE t_job; --",
    f'{LEFT}" OR 1=1 --', f"a\u202e{LEFT}", f"{LEFT}" * 50, f"{{{{{LEFT}}}}}", f"%s%n{LEFT}", "..", ".", "~", "C:\\x",
)  # fmt: skip


def paths(job_id: str, name: str) -> list[str]:
    """Each piece of each path of another party, with this name in it."""
    one = quote(name, safe="")
    task, end = f"{job_id}/toy_0/{job_id}_toy_0/0", f"{'ab' * 16}/guest/{HOSTILE}/host/{OWN}"
    return [
        f"party/{one}/host/{OWN}/start", f"party/{job_id}/{one}/{OWN}/start", f"party/{job_id}/host/{one}/start",
        f"party/{job_id}/host/{OWN}/{one}", f"party/{job_id}/host/{OWN}/status/{one}",
        f"party/{job_id}/{one}/{job_id}_toy_0/0/host/{OWN}/start", f"party/{job_id}/toy_0/{one}/0/host/{OWN}/start",
        f"party/{job_id}/toy_0/{job_id}_toy_0/{one}/host/{OWN}/start", f"party/{task}/host/{OWN}/stop/{one}",
        f"initiator/{one}/guest/{OWN}/rerun", f"initiator/{task}/host/{one}/report",
        f"tracker/{one}/toy_0/host/{OWN}/output/table", f"tracker/{job_id}/{one}/host/{OWN}/output/table",
        f"exchange/deliver/{one}/{job_id}_a/0/{end}?topic=a&seq=0&last=1",
        f"exchange/deliver/{job_id}/{one}/0/{end}?topic=a&seq=0&last=1",
        f"exchange/deliver/{job_id}/{job_id}_a/0/{one}/guest/{HOSTILE}/host/{OWN}?topic=a&seq=0&last=1",
        f"exchange/deliver/{job_id}/{job_id}_a/0/{end}?topic={one}&seq=0&last=1",
        f"exchange/deliver/{job_id}/{job_id}_a/0/{end}?topic=a&seq={one}&last=1",
        f"exchange/deliver/{job_id}/{job_id}_a/0/{end}?topic=a&seq=0&last=1&document={one}",
    ]  # fmt: skip


def bodies(job_id: str, name: str) -> list[tuple[str, object]]:
    """Each name in a body that decides where something is written, read or asked."""
    document = reader(HOSTILE, "open")
    named, module, table = (reader(HOSTILE, "open") for _ in range(3))
    components, common = "components", "component_parameters"
    named["job_dsl"][components] = {name: document["job_dsl"][components]["toy_0"]}
    module["job_dsl"][components]["toy_0"]["module"] = name
    table["job_runtime_conf"][common]["common"]["toy_0"] = {"table": {"namespace": name, "name": name}}
    create = f"party/{job_id}/host/{OWN}/create"
    log = {"job_id": job_id, "component_name": name, "role": "host", "party_id": OWN}
    return [
        (create, create_body(name, document, incarnations={"toy_0": name})),
        *((create, create_body(job_id, one)) for one in (named, module, table)),
        ("party/validate", {**create_body(name, document), "role": "host", "party_id": OWN}),
        ("party/history", {"job_id": name}), ("party/task/log", log), ("party/heartbeat", {"jobs": [[name, 0]]}),
        ("party/batch", {"commands": [{"endpoint": f"/party/{name}/host/{OWN}/create"}, {"endpoint": name}]}),
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_no_name_leaves_its_place(attacked: AttackedServer, tmp_path: Path, name: str) -> None:
    before, rows = attacked.files(), attacked.server.rows("SELECT f_job_id FROM t_job ORDER BY 1, f_role")
    job_id = new_job_id()
    for path in paths(job_id, name):
        status, text = attacked.raw(HOSTILE, path, b"x" if "deliver" in path else {})
        assert status in (400, 404) or b'"retcode":0' not in text.replace(b" ", b""), (path, status, text)
        assert status < 500, (path, text)
    for path, body in bodies(job_id, name):
        answers = attacked.ask(HOSTILE, path, body)
        for one in answers["data"] if path.endswith("batch") else [answers]:
            assert one["retcode"] not in (0, 100), (path, one)
    attacked.await_nothing_new(before)
    assert attacked.server.rows("SELECT f_job_id FROM t_job ORDER BY 1, f_role") == rows
    for folder in (Path("/tmp"), attacked.home.parent, Path.cwd()):
        assert list(folder.glob(f"*{LEFT}*")) == []


# ---------------------------------------------------------------------- objects


class Calls:
    """Makes a file where it is unpacked."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(f"/tmp/{LEFT}.pickle"),)


def test_no_bytes_from_a_party_are_unpickled(attacked: AttackedServer) -> None:
    job_id, called = new_job_id(), pickle.dumps(Calls())
    for path in (
        "party/heartbeat", "party/batch", f"party/{job_id}/host/{OWN}/create", task_path(job_id, "update"),
        task_path(job_id, "report", f"host/{HOSTILE}", "initiator"),
    ):  # fmt: skip
        for kind in ("application/octet-stream", "application/python-pickle", "application/json"):
            assert b'"retcode":0' not in attacked.raw(HOSTILE, path, called, Content_Type=kind)[1].replace(b" ", b"")
    assert not Path(f"/tmp/{LEFT}.pickle").exists()


# ---------------------------------------------------------------------- errors, and logs

WRONG_VALUES: tuple[Any, ...] = (
    None, True, -1, 1e308, "x", "\ud800", "\u0000", "9" * 400, [], [[]], {}, {"a": {"b": []}},
)  # fmt: skip


def test_no_error_says_how_the_server_is_made(attacked: AttackedServer) -> None:
    """Each field of a command with a value of each other kind; and bytes that are no JSON."""
    right = create_body(new_job_id(), reader(HOSTILE, "open"))
    fields = {**right, "document": {}, "disclosure": {}, "revision": 0, "call_back": True, "commands": [], "jobs": []}
    bodies: list[object] = [{**right, key: value} for key in fields for value in WRONG_VALUES]
    bodies += [b"{", b"\xff\xfe", b"[" * 20_000, b'{"a": NaN}', b'{"a": 1, "a": 2}', b"", b"1" * 5000]
    for number, body in enumerate(bodies):
        create = f"party/{new_job_id()}/host/{OWN}/create"
        path = ("party/validate", "party/heartbeat", create, "party/batch")[number % 4]
        sent = {**body, "role": "host", "party_id": OWN} if isinstance(body, dict) else body
        status, text = attacked.raw(HOSTILE, path, sent)
        assert status < 500, (path, body, text)
        if path == create and b'"retcode":0' in text.replace(b" ", b""):
            attacked.end(HOSTILE, create.split("/")[1])
        for word in (b"Traceback", b'File "', str(attacked.home).encode(), b"fate_flow.", b"Error(", b"sqlite", b"0x7"):
            assert word not in text, (path, body, text)


FORGED = "2026-01-01 00:00:00,000 [ERROR] forged"


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", "\x1b[2K\x1b[1A", "\ufeff", "\x00"])
def test_no_text_of_a_party_forges_a_line_of_a_log(attacked: AttackedServer, end: str) -> None:
    text = f"a{end}{FORGED}"
    document, job_id = reader(HOSTILE, "open"), new_job_id()
    document["job_runtime_conf"]["job_parameters"]["common"]["name"] = text
    body = create_body(job_id, document, name=text, description=text)
    for path, sent in (
        (f"party/{job_id}/host/{OWN}/create", body),
        (f"party/{job_id}/host/{OWN}/stop/canceled", {"message": text, "reason": text, "caused_by": text}),
        (f"party/{job_id}/host/{OWN}/status/canceled", {"message": text, "reason": text, "tag": text}),
        (task_path(job_id, "report", f"host/{HOSTILE}", "initiator"), {"party_status": text, "error_report": text}),
        ("party/history", {"job_id": text}), ("party/batch", {"commands": [{"endpoint": text}]}),
    ):  # fmt: skip
        attacked.raw(HOSTILE, path, json.dumps(sent).encode())
    escaped = quote(text)
    for path in (f"party/{escaped}", f"party/{escaped}/host/{OWN}/start", f"x?{escaped}"):
        attacked.raw(HOSTILE, path)
    attacked.exchanged(HOSTILE, f"POST /v1/party/{text} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    attacked.exchanged(HOSTILE, f"POST /v1/a HTTP/1.1\r\nHost: x\r\nSRC-FATE-VER: {text}\r\n\r\n".encode())

    def logged() -> dict[Path, list[str]]:
        return {path: content.decode().splitlines() for path, content in contents_below(attacked.home / "logs").items()}

    eventually(lambda: any(FORGED in line for lines in logged().values() for line in lines), "what was sent, in a log")
    for path, lines in logged().items():
        assert not [line for line in lines if line.startswith(FORGED) or "\x1b" in line or "\0" in line], path


FIELDS = (
    "run", "turn", "order", "revision", "deadline_seconds", "tasks", "kept", "last", "parameters", "job_parameters",
    "component_parameters", "components", "progress", "incarnation", "free_cores", "party_status", "auto_retries",
    "disclosure", "missing", "reason",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    10**30, "\ud800", {"toy_0": {"version": 10**30, "incarnation": "ab" * 16, "auto_retries": 2**63}},
)  # fmt: skip
JOB_VERBS = (
    "status/waiting", "status/running", "dependence/check", "resource/apply", "resource/return", "start", "update",
    "parameter/update", "align", "component/inheritance/check", "model", "clean",
)  # fmt: skip
TASK_VERBS = ("create", "collect", "update", "status/running", "stop/canceled", "status/failed")


def test_no_value_of_a_party_makes_the_server_fail(attacked: AttackedServer, hostile_seat: str) -> None:
    """In commands about a job of its own, and about one in which it has a seat: it may send each."""
    job_id = new_job_id()
    created = attacked.ask(HOSTILE, f"party/{job_id}/host/{OWN}/create", create_body(job_id, reader(HOSTILE, "open")))
    assert created["retcode"] == 0
    paths = [
        *(f"party/{job_id}/host/{OWN}/{verb}" for verb in JOB_VERBS), *(task_path(job_id, verb) for verb in TASK_VERBS),
        *(f"initiator/{hostile_seat}/host/{HOSTILE}/{verb}" for verb in ("rerun", "ready", "standing", "room")),
        task_path(hostile_seat, "report", f"host/{HOSTILE}", "initiator"),
        f"party/{job_id}/host/{OWN}/stop/canceled", f"party/{job_id}/host/{OWN}/status/canceled",
        f"initiator/{hostile_seat}/guest/{OWN}/stop/canceled",
    ]  # fmt: skip
    needed = {"party_status": "failed", "free_cores": 1, "job_parameters": {}, "component_parameters": {}}
    bodies = [{**needed, field: value} for field in FIELDS for value in ODD_VALUES]
    for path in paths:
        commands = [{"endpoint": f"/{path}", "body": body} for body in bodies]
        for answer in attacked.ask(HOSTILE, "party/batch", {"commands": commands})["data"]:
            assert "unexpected error" not in answer["retmsg"], (path, answer)
