"""What the record says of a worker: what it was given, and what it has made."""

from __future__ import annotations

import json
from dataclasses import replace

from fate_flow.core.model.artifact import Artifact, Content, Use
from fate_flow.core.model.job import CommandKind
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, a_host, task_command
from tests.kit.services.sights import FAILED, with_outputs
from tests.kit.values import JOB_ID

START_A = task_command(CommandKind.TASK_START)


def a_recording_host() -> HandServer:
    """A host where the worker of task a was ordered, after it was told to keep a record."""
    host = a_host(*RUN)
    object.__setattr__(host.context, "keeps_record", True)
    assert host.handle(START_A).is_ok
    return host


def workers_in(host: HandServer) -> list[StoredEntry]:
    with host.store.reading() as tx:
        return [one for one in tx.unsealed_entries(100) if one.kind == "worker"]


def test_the_order_of_a_worker_is_recorded_with_digests_and_its_text_is_committed_to() -> None:
    host = a_recording_host()

    (one,) = workers_in(host)
    fields, said = read_entry(one.content), json.loads(one.text)
    assert (one.log, one.job_id) == ("own", JOB_ID)
    assert (fields["worker"], fields["step"], fields["party"], fields["task"]) == (
        worker_of(host), "ordered", "host 10000", "a"
    )  # fmt: skip
    assert opens(fields["message"], "message", bytes.fromhex(one.salt), one.text.encode())
    assert (said["module"], said["engine"], len(said["parameters"])) == ("Work", "local", 64)
    assert said["module"].encode() not in one.content


def test_the_end_of_a_worker_is_recorded_with_the_digests_of_what_it_has_made() -> None:
    host = a_recording_host()
    host.engine.sights[worker_of(host)] = with_outputs(
        Artifact("json_model", "file:///m", key="model", sha256="ab" * 32, size=5)
    )
    host.watch()

    said = json.loads(workers_in(host)[-1].text)
    assert (said["code"], said["reason"]) == (0, "done")
    assert said["outputs"] == [
        {"key": "model", "kind": "json_model", "uri": "file:///m", "sha256": "ab" * 32, "size": 5}
    ]  # fmt: skip


def test_the_end_of_a_worker_has_the_digests_of_what_its_runner_has_read() -> None:
    host = a_recording_host()
    seen = with_outputs(Artifact("table", "standalone:///d/n/t", key="data"))
    read = ((Use.PROGRAM, "file:///bin/x", "cd" * 32, 7), (Use.OUTPUT, "standalone:///d/n/t", "ab" * 32, 5))
    contents = tuple(Content(*one) for one in read)
    host.engine.sights[worker_of(host)] = replace(seen, contents=contents)
    host.watch()
    assert json.loads(workers_in(host)[-1].text)["contents"] == [
        {"use": "program", "uri": "file:///bin/x", "sha256": "cd" * 32, "size": 7},
        {"use": "output", "uri": "standalone:///d/n/t", "sha256": "ab" * 32, "size": 5},
    ]


def test_the_end_of_a_worker_that_failed_is_recorded() -> None:
    host = a_recording_host()
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()

    one = workers_in(host)[-1]
    assert read_entry(one.content)["step"] == "ended"
    assert json.loads(one.text)["code"] == 1


def test_nothing_is_recorded_of_workers_while_the_switch_is_off() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    assert workers_in(host) == []
