"""Components of a provider with a Python of its own, at two real parties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.components import frame_provider
from tests.kit.components.foreign_provider import VERSION, make_environment
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, running_cluster
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both parties have the providers `foreign` and `framed`; the guest has `foreign` under a second name, too, and the
    host has no warm process of `framed`."""
    folder = tmp_path_factory.mktemp("foreign")
    foreign = {"version": VERSION, "python": str(make_environment(folder / "env"))}
    framed = {"version": frame_provider.VERSION, "python": str(frame_provider.make_environment(folder / "framed"))}
    both = {"foreign": foreign, "framed": framed}
    overlays = {
        GUEST: {"providers": {**both, "second": {**foreign, "module": "foreign.components"}}},
        HOST: {"providers": {**both, "framed": {**framed, "warm": False}}},
    }
    with running_cluster(folder / "servers", (GUEST, HOST), base_port=BASE_PORT + 200, overlays=overlays) as cluster:
        yield cluster
        cluster.check_idle()


def document(module: str, **parameters: Any) -> dict[str, Any]:
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": GUEST},
        "role": {"guest": [GUEST], "host": [HOST]}, "component_parameters": {"common": {"a": parameters}},
    }  # fmt: skip
    return {"job_dsl": {"components": {"a": {"module": module}}}, "job_runtime_conf": conf}


def wait_for_providers(cluster: Cluster) -> None:
    def is_ready() -> bool:
        listed = [one.ask("provider/get") for one in cluster.parties.values()]
        versions = (each for found in listed for name, each in found.items() if name != "fate_flow")
        return all(one["is_ready"] for each in versions for one in each.values())

    eventually(is_ready, lambda: str([one.ask("provider/get") for one in cluster.parties.values()]))


@pytest.mark.heavy
def test_a_job_runs_components_of_a_provider_that_all_its_parties_have(cluster: Cluster) -> None:
    guest = cluster.guest
    wait_for_providers(cluster)
    job_id = cluster.run(document("foreign.say", text="hello", times=4))
    assert all(VERSION in task["f_provider_info"] for task in guest.tasks(job_id))
    for party, role in ((guest, "guest"), (cluster.host, "host")):
        seat = {"job_id": job_id, "role": role, "party_id": party.party_id, "component_name": "a"}
        eventually(lambda party=party, seat=seat: bool(party.post("tracking/component/metrics", seat).get("data")))
        metrics = party.ask("tracking/component/metric/all", seat)["said"]
        assert metrics["said_loss"]["data"] == [[step, 1 / (step + 1)] for step in range(4)]
        assert metrics["said_loss"]["meta"] == {"metric_type": "loss", "step_axis": "iterations"}
        assert party.ask("tracking/component/summary/download", seat) == {
            "said_loss": {"last": 0.25, "iterations": 3, "count": 4}, "words": 1,
        }
        assert party.ask("job/metrics", {"job_id": job_id})["curves"][-1]["party_id"] == party.party_id
    assert "foreign.train: trains" in guest.flow("component", "desc", "foreign.train", "--table").out
    refused = guest.submit(document("second.say", text="hello"))
    assert refused["retcode"] != 0
    assert f"host {HOST}" in refused["retmsg"]
    assert f"party {HOST} has no provider 'second', from which 'say' would come; it has: foreign {VERSION}" in (
        refused["retmsg"]
    )
    failed = cluster.submit(document("foreign.say", text="fail"))
    rows = cluster.wait(failed, "failed")
    assert "ValueError; that party's log has the traceback" in rows[GUEST]["f_message"]
    _metrics_are_seen_while_the_task_runs(cluster)


def _metrics_are_seen_while_the_task_runs(cluster: Cluster) -> None:
    """At their own party, in `watch` too; those that are none are named in its log."""
    guest, host = cluster.guest, cluster.host
    running = cluster.submit(document("foreign.say", text="hang", times=3))
    seat = {"job_id": running, "role": "guest", "party_id": GUEST, "component_name": "a"}

    def loss() -> list[Any]:
        said = guest.post("tracking/component/metric/all", seat).get("data") or {}
        found: list[Any] = said.get("said", {}).get("said_loss", {}).get("data", [])
        return found

    eventually(lambda: len(loss()) == 3, lambda: str(guest.post("tracking/component/metric/all", seat)))
    assert host.post("tracking/component/metrics", seat)["data"] == {}, "they stay at their party"
    assert {one["party_id"] for one in host.ask("job/metrics", {"job_id": running})["curves"]} <= {HOST}
    [curve] = guest.ask("job/metrics", {"job_id": running})["curves"][-1:]
    assert (curve["party_id"], curve["points"][-1]) == (GUEST, [2, 1 / 3, 1.5])
    guest.ask("job/stop", {"job_id": running})
    cluster.wait(running, "canceled")
    watched = guest.flow("job", "watch", "-j", running, code=1).err
    assert f"job {running} task a guest-{GUEST}: said/said_loss 0.333333 (iterations 2)\n" in watched
    assert len(loss()) == 3, "what was reported stays"
    wrong = cluster.run(document("foreign.say", text="bad metric"))
    log = guest.home / "logs" / wrong / "guest" / GUEST / "a" / "ERROR.log"
    assert "metrics of the component are left out: name: '' is not a text" in log.read_text(encoding="utf-8")


def rows_of(party: PartyServer, role: str, job_id: str, name: str) -> list[list[str]]:
    """The rows of the only output table of a component."""
    seat = {"job_id": job_id, "role": role, "party_id": party.party_id}
    [rows] = party.ask("tracking/component/output/data", {**seat, "component_name": name})
    return sorted(rows)


@pytest.mark.heavy
def test_tables_become_data_frames_of_a_provider_and_data_frames_become_tables(cluster: Cluster) -> None:
    wait_for_providers(cluster)
    meta = {"label_name": "y"}
    cluster.guest.has_table("framed", "id,y,x\n" + "".join(f"id{n},{n % 2},{n}.5\n" for n in range(40)), meta=meta)
    cluster.host.has_table("framed", "id,y,x\n" + "".join(f"id{n},{n % 2},{n}.5\n" for n in range(20, 60)), meta=meta)

    def reading(name: str) -> dict[str, Any]:
        twice = {"module": "framed.twice"}
        components = {
            "reader_0": {"module": "framed.reader"},
            "twice_0": {**twice, "input": {"data": {"input_data": ["reader_0.output_data"]}}},
            "twice_1": {**twice, "input": {"data": {"input_data": ["twice_0.output_data"]}}},
            "common": {"module": "Intersection", "input": {"data": {"data": ["twice_1.output_data"]}},
                       "output": {"data": ["data"]}},
            "twice_2": {**twice, "input": {"data": {"input_data": ["common.data"]}}},
        }  # fmt: skip
        conf = document("framed.reader")["job_runtime_conf"]
        conf["component_parameters"] = {"common": {"reader_0": {"namespace": "it", "name": name}}}
        return {"job_dsl": {"components": components}, "job_runtime_conf": conf}

    job_id = cluster.run(reading("framed"))
    wanted = [[f"id{n}", f"id{n}", str(n % 2), f"{8 * (n + 0.5)}"] for n in range(20, 40)]
    for party, role, first in ((cluster.guest, "guest", 0), (cluster.host, "host", 20)):
        assert rows_of(party, role, job_id, "twice_2") == sorted(wanted)
        assert [f"id{first}", str(first % 2), f"{first}.5"] in rows_of(party, role, job_id, "reader_0")
        assert [f"id{first}", f"id{first}", str(first % 2), f"{2 * first + 1}.0"] in rows_of(
            party, role, job_id, "twice_0"
        )
    refused = cluster.guest.submit(reading("nowhere"))
    assert "reader_0 (framed.reader): there is no table it.nowhere at " in refused["retmsg"]
    cluster.guest.has_table("framed", "id,y,x\n1,0,ann\n", meta=meta)
    failed = cluster.submit(reading("framed"))
    rows_of_job = cluster.wait(failed, "failed")
    assert "input input_data: a value in row 1 of the table is no float32" in rows_of_job[GUEST]["f_message"]
    assert "ann" not in rows_of_job[HOST]["f_message"]


def doubling(first: str, **parameters: Any) -> dict[str, Any]:
    """A job whose component does this with half of its data frame written, in the first version of its task."""
    found = document("framed.reader")
    found["job_dsl"]["components"] = {
        "reader_0": {"module": "framed.reader"},
        "twice_0": {"module": "framed.twice", "input": {"data": {"input_data": ["reader_0.output_data"]}}},
    }
    found["job_runtime_conf"]["component_parameters"] = {
        "common": {"reader_0": {"namespace": "it", "name": "half"}, "twice_0": {"first": first}}
    }
    found["job_runtime_conf"]["job_parameters"] = {"common": parameters}
    return found


def tables_of(party: PartyServer, job_id: str) -> list[str]:
    """The tables that components have made."""
    return [row["f_name"] for row in party.rows("SELECT * FROM t_storage_table_meta WHERE f_job_id = ?", job_id)]


def printed(party: PartyServer, job_id: str) -> str:
    return "".join(path.read_text() for path in (party.home / "logs" / job_id).rglob("*_std.log"))


@pytest.mark.heavy
def test_half_a_data_frame_is_nobodys_output(cluster: Cluster) -> None:
    wait_for_providers(cluster)
    both = cluster.parties.values()
    for party in both:
        party.has_table("half", "id,x\n" + "".join(f"id{n},{n}.5\n" for n in range(20)))
    stopped = cluster.submit(doubling("hang"))
    for party in both:
        eventually(lambda party=party: "imported by" in printed(party, stopped), "half a data frame")
    assert "imported by itself\n" in printed(cluster.host, stopped), "without a warm process"
    cluster.guest.ask("job/stop", {"job_id": stopped})
    cluster.wait(stopped, "canceled")
    failed = cluster.submit(doubling("full"))
    rows = cluster.wait(failed, "failed")
    assert "OSError at" in rows[GUEST]["f_message"]
    assert "No space left" not in rows[GUEST]["f_message"], "it may have a value in it"
    again = cluster.run(doubling("full", auto_retries=1))
    for party, role in ((cluster.guest, "guest"), (cluster.host, "host")):
        assert len(party.tasks(again, "twice_0")) == 2
        assert rows_of(party, role, again, "twice_0") == sorted(
            [f"id{n}", f"id{n}", f"{2 * n + 1}.0"] for n in range(20)
        )
        assert [tables_of(party, one) for one in (stopped, failed)] == [[], []]
    cluster.check_idle()
