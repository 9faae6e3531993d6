"""What runs with the Python of a provider: its files in both forms, and FATE's transport over the exchange."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from enum import Enum, StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fate_flow.components.base.errors import ExchangeError
from fate_flow.components.provider_process import ptp, task_files
from fate_flow.components.provider_process.component import pickle_members_by_value
from fate_flow.components.provider_process.transport import Bridge, Refusal, serve, short_topic
from fate_flow.core.model.spec import Party
from tests.kit.components.memory_channel import MemoryExchange

GUEST, HOST, ALSO_HERE = Party("guest", "9999"), Party("host", "10000"), Party("host", "9999")
ID = "2026_a_0_0_" + "ab" * 16


# ---------------------------------------------------------------------- messages


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 70_000])
def test_what_is_written_is_read_back(size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    found = ptp.read_fields(ptp.outbound(payload, "0", "all well"))
    assert found == {key: value for key, value in ((2, payload), (3, b"0"), (4, b"all well")) if value}
    assert ptp.read_fields(ptp.inbound("a-topic", payload)).get(1) == b"a-topic"


def test_messages_are_those_of_protocol_buffers() -> None:
    assert ptp.inbound("ab", b"\x01") == b"\x0a\x02ab\x12\x01\x01"
    popped = b"\x0a\x01t" + b"\x10\xe8\x07" + b"\x19" + bytes(8) + b"\x25" + bytes(4)
    assert ptp.read_fields(popped) == {1: b"t"}, "a number, eight bytes and four bytes are passed over"


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0a", b"\x0b\x00", b"\x10" + b"\xff" * 10, b"\x19\x00"])
def test_a_malformed_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a (field|number) "):
        ptp.read_fields(data)


# ---------------------------------------------------------------------- the transport


def bridge(exchange: MemoryExchange, me: Party, *others: Party) -> Bridge:
    return Bridge(exchange.channel_of(me), ID, me, others)


def test_topics_of_fate_reach_the_worker_of_the_seat_that_they_name() -> None:
    exchange = MemoryExchange()
    guest = bridge(exchange, GUEST, HOST, ALSO_HERE)
    for party in (HOST, ALSO_HERE):
        topic = f"{ID}-guest-9999-{party.role}-{party.party_id}-lr.0-weights-3"
        answer = guest.push({ptp.TOPIC: topic.encode(), ptp.PAYLOAD: party.party_id.encode()})
        assert ptp.read_fields(answer) == {ptp.CODE: b"0"}
        received = bridge(exchange, party, GUEST).pop({ptp.TOPIC: topic.encode()})
        assert ptp.read_fields(received) == {ptp.PAYLOAD: party.party_id.encode(), ptp.CODE: b"0"}
    assert {letter.topic for letter in exchange.letters} == {"ptp-lr.0-weights-3"}
    assert ptp.read_fields(guest.release({})) == {ptp.CODE: b"0"}


@pytest.mark.parametrize("topic", [
    "", "x", f"{ID}-guest-9999-host-1-n", f"{ID}-host-10000-guest-9999-n", "other-guest-9999-host-10000-n",
])
def test_a_topic_of_another_attempt_or_party_is_refused(topic: str) -> None:
    with pytest.raises(Refusal, match="not one between this party and another one"):
        bridge(MemoryExchange(), GUEST, HOST).push({ptp.TOPIC: topic.encode()})


def test_a_long_name_is_sent_as_a_digest() -> None:
    assert short_topic("x" * 200) == "ptp-" + "x" * 200
    names = {short_topic("x" * 201), short_topic("x" * 202), short_topic("")}
    assert len(names) == 3
    assert all(len(name) == 68 for name in names)


class Aborted(Exception):
    pass


def test_the_service_answers_with_the_reason_of_a_failure() -> None:
    def abort(code: str, text: str) -> None:
        raise Aborted(code, text)

    def push(*_: object) -> None:
        raise ExchangeError("push of n to host 10000: 410 the session has ended")

    made: dict[str, Any] = {}
    server = SimpleNamespace(
        add_generic_rpc_handlers=lambda handlers: made.update(handlers[0]), start=lambda: None,
        add_insecure_port=lambda address: {"127.0.0.1:0": 4711}[address],
    )
    grpc = SimpleNamespace(
        server=lambda *_, **__: server, StatusCode=SimpleNamespace(PERMISSION_DENIED="denied", ABORTED="aborted"),
        unary_unary_rpc_method_handler=lambda handle, request_deserializer: handle,
        method_handlers_generic_handler=lambda service, handlers: {service: handlers},
    )
    channel: Any = SimpleNamespace(push=push)
    assert serve(Bridge(channel, ID, GUEST, (HOST,)), grpc) == (server, 4711)
    calls, context = made["org.ppc.ptp.PrivateTransferTransport"], SimpleNamespace(abort=abort)
    assert set(calls) == {"push", "pop", "release"}
    for topic, why in ((f"{ID}-guest-9999-host-10000-n", ("aborted", "push of n to host 10000: 410 the session has "
                        "ended")), ("x", ("denied", "the topic is not one between this party and another one of this "
                        "attempt"))):
        with pytest.raises(Aborted) as failure:
            calls["push"]({ptp.TOPIC: topic.encode()}, context)
        assert failure.value.args == why


# ---------------------------------------------------------------------- files


def a_config(folder: Path) -> dict[str, Any]:
    parties = {"local": {"role": "guest", "partyid": "9999"}, "parties": [{"role": "guest", "partyid": "9999"}]}
    federation = {"federation_id": ID, "parties": parties, "exchange": {"url": "http://x", "token": "secret"}}
    return {
        "task_name": "psi_0", "component": "psi", "stage": "default", "input_artifacts": {}, "parameters": {"a": 1},
        "output_artifacts": {
            "frame": {"uri": "standalone:///home/jobs/j/guest/9999/frames/ns/frame", "type_name": "dataframe"},
            "output_model": {"uri": f"file://{folder}/outputs/output_model", "type_name": "json_model"},
            "metric": {"uri": f"file://{folder}/metric.json", "type_name": "json_metric"},
        },
        "conf": {
            "computing": {"type": "standalone", "metadata": {}}, "storage": {"password": "x"},
            "federation": {"type": "fate_flow", "metadata": federation}, "task_final_meta_path": "ours",
        },
    }  # fmt: skip


def test_a_component_gets_the_transport_instead_of_the_token_of_the_exchange(tmp_path: Path) -> None:
    ours = a_config(tmp_path)
    theirs = task_files.provider_config(ours, tmp_path, 4711, "http://127.0.0.1:1/x")
    assert "secret" not in json.dumps(theirs)
    assert "storage" not in theirs["conf"]
    assert theirs["conf"]["federation"] == {"type": "osx", "metadata": {
        "federation_id": ID, "parties": ours["conf"]["federation"]["metadata"]["parties"],
        "osx_config": {"host": "127.0.0.1", "port": 4711, "mode": "message_queue", "max_message_size": 4_194_304},
    }}  # fmt: skip
    assert theirs["conf"]["computing"]["metadata"]["options"]["data_dir"] == "/home/jobs/j/guest/9999/frames"
    assert theirs["conf"]["task_final_meta_path"] == f"{tmp_path}/provider_result.json"
    assert theirs["output_artifacts"]["metric"] == {"uri": "http://127.0.0.1:1/x", "type_name": "json_metric"}
    assert theirs["output_artifacts"]["output_model"] == ours["output_artifacts"]["output_model"]
    without = task_files.provider_config(ours, tmp_path, None, "http://127.0.0.1:1/x")
    assert without["conf"]["federation"] == ours["conf"]["federation"], "without gRPC it may speak to the exchange"


def test_the_result_of_a_component_becomes_ours(tmp_path: Path) -> None:
    metrics = [{"namespace": "train", "name": "lr_loss", "data": [[0, 0.7, 1], [1, 0.6, 2]], "meta": {}}]
    model = {"uri": f"file://{tmp_path}/outputs/output_model", "type_name": "json_model", "consumed": True,
             "metadata": {"metadata": {}, "model_overview": {"big": 1}, "source": {"task_id": "t"}}}  # fmt: skip
    unused = {"uri": "standalone:///d/n/m", "type_name": "dataframe", "consumed": False, "metadata": {}}
    said = {"status": {"code": 0}, "io_meta": {"outputs": {
        "data": {"output_data": unused}, "model": {"output_model": model}, "metric": {"metric": {}},
    }}}  # fmt: skip
    result = task_files.our_result(said, a_config(tmp_path), metrics)
    assert result["status"] == {"code": 0, "exceptions": None}
    outputs = result["io_meta"]["outputs"]
    assert outputs["data"] == {"output_data": []}
    assert outputs["model"]["output_model"] == [{
        "uri": model["uri"], "type_name": "json_model", "metadata": {"metadata": {}, "source": {"task_id": "t"}},
    }]  # fmt: skip
    assert outputs["metric"]["metric"][0]["uri"] == f"file://{tmp_path}/metric.json"
    assert json.loads((tmp_path / "metric.json").read_text()) == metrics
    assert task_files.our_result(said, a_config(tmp_path), [])["io_meta"]["outputs"]["metric"] == {}


def test_only_files_with_metrics_in_the_folder_of_the_worker_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "else")
    entries = [{"uri": one} for one in (
        "http://127.0.0.1:1/x", f"file://{tmp_path}/else", f"file://{folder}/link", f"file://{folder}/m", "file://m",
        "",
    )]  # fmt: skip
    said = {"io_meta": {"outputs": {"metric": {"metric": entries, "one": entries[3]}}}}
    assert list(task_files.metric_files(said, folder)) == [folder / "m", folder / "m"]
    assert list(task_files.metric_files({}, folder)) == []


def test_pools_of_processes_fork_when_they_are_made() -> None:
    """gRPC, which FATE uses in between, may end processes that are forked later."""
    code = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from fate_flow.components.provider_process.component import fork_pools_early
fork_pools_early()
with ProcessPoolExecutor(max_workers=3) as pool:
    forked = {child.pid for child in multiprocessing.active_children()}
    list(pool.map(abs, range(30)))
    assert {child.pid for child in multiprocessing.active_children()} == forked
    print(len(forked))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_a_failure_names_its_type_and_place_but_no_value(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/env/lib/fate/ml/psi.py", line 33, in run\n    raise E(x)\n'
        "fate.E: the id 4711 of ann\nann\nbob: 1\n"
    )
    result = task_files.our_result({"status": {"code": -1, "exceptions": trace}}, a_config(tmp_path), [])
    assert result["status"] == {
        "code": -1,
        "exceptions": "fate.E at fate/ml/psi.py line 33; that party's log has the traceback",
    }
    assert task_files.cause("") == "an error; that party's log has the traceback"


# ---------------------------------------------------------------------- the Python of a provider


class Scheme(Enum):
    PAILLIER = 1


class Kind(StrEnum):
    """With a method for pickles of its own, copied from that of all enumerations."""

    FLOAT = "float"


def _of_debian(self: Enum, _protocol: int) -> Any:
    return getattr, (self.__class__, self._name_)


@pytest.mark.parametrize("member", [Scheme.PAILLIER, Kind.FLOAT])
def test_members_are_pickled_without_a_call_that_fate_refuses(member: Enum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enum.__reduce_ex__, "__code__", _of_debian.__code__)
    assert b"getattr" in pickle.dumps(member)
    pickle_members_by_value()
    assert b"getattr" not in pickle.dumps(member)
    assert pickle.loads(pickle.dumps(member)) is member          # bytes of this test: FATE's messages are pickles
