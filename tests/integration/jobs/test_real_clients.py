"""People with keys of their own at real servers: what each may do, until the key is revoked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from fate_flow.cli.connection.signature import Signature
from tests.kit.servers.home_files import contents_below
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, running_cluster, toy
from tests.kit.servers.warm import WARM
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two parties; the guest answers clients from two processes, and at the host two people approve."""
    overlays = {GUEST: {"fateflow": {"http_workers": 2}}, HOST: {"approval": {"required": True, "people": 2}}}
    root = tmp_path_factory.mktemp("servers") / "people"
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 80, overlays=overlays) as cluster:
        yield cluster


def fate_flow(server: PartyServer, *arguments: str) -> str:
    """Run a command of the operator on the server's machine; return what it prints."""
    done = WARM.run("fate_flow", *arguments, "-c", str(server.home / "conf" / "service_conf.yaml"))
    assert done.code == 0, done.err
    return done.out


@dataclass
class Person:
    """Somebody with a key, who runs `flow` as another user of another machine would."""

    settings: Path
    keys: dict[str, str]

    def flow(self, *arguments: object, code: int = 0) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FATE_FLOW_SETTINGS", str(self.settings))
            done = WARM.run("flow", *map(str, arguments), cwd=self.settings.parent)
        assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
        return done.out

    def refused(self, *arguments: object) -> Any:
        return json.loads(self.flow(*arguments, code=1))


def person(server: PartyServer, folder: Path, name: str, *roles: str) -> Person:
    options = [part for role in roles for part in ("--role", role)]
    keys = yaml.safe_load(fate_flow(server, "client", "add", name, *options))
    made = Person(folder / f"{name}.yaml", keys)
    port = server.url.rpartition(":")[2]
    key = ("--app-key", keys["app_key"], "--secret-key", keys["secret_key"])
    made.flow("init", "--ip", "127.0.0.1", "--port", port, *key)
    return made


@pytest.fixture
def document(tmp_path: Path) -> tuple[str, ...]:
    """The options that submit a job."""
    for key, value in toy().items():
        (tmp_path / f"{key}.json").write_text(json.dumps(value))
    return "-c", f"{tmp_path}/job_runtime_conf.json", "-d", f"{tmp_path}/job_dsl.json"


def uploading(folder: Path) -> Path:
    """The configuration of an upload, with its file beside it."""
    (folder / "rows.csv").write_text("id,x\n1,2\n")
    conf = folder / "upload.json"
    names = {"namespace": "people", "table_name": folder.name}
    conf.write_text(json.dumps({"file": str(folder / "rows.csv"), "head": 1, "partition": 1, **names}))
    return conf


def test_each_may_do_what_the_roles_say(parties: Cluster, tmp_path: Path, document: tuple[str, ...]) -> None:
    anna = person(parties.guest, tmp_path, "anna", "submit")
    bob = person(parties.guest, tmp_path, "bob", "operate")
    carl = person(parties.guest, tmp_path, "carl", "read")
    job_id = json.loads(anna.flow("data", "upload", "-c", uploading(tmp_path)))["jobId"]
    parties.guest.wait(job_id, "success")
    assert "submitted by anna (by local-0)" in carl.flow("job", "history", "--table", "-j", job_id)
    assert f"job {job_id}: submitted by anna" in "\n".join(parties.guest.log(job_id, "fate_flow_schedule.log"))
    for other in (bob, carl):
        said = other.refused("job", "submit", *document)
        assert (said["retcode"], "/v1/job/submit needs submit; whoever runs" in said["retmsg"]) == (108, True)
        assert job_id in other.flow("job", "list", "--json")
    assert anna.refused("queue", "hold", "-m", "mine")["retcode"] == 108
    assert "client carl has the client roles read" in carl.refused("job", "stop", "-j", job_id)["retmsg"]
    assert "is over already" in bob.flow("job", "stop", "-j", job_id)
    assert carl.refused("job", "log", "-j", job_id, "-o", tmp_path)["retcode"] == 403
    anna.flow("job", "log", "-j", job_id, "-o", tmp_path)
    logs = contents_below(parties.guest.home / "logs")
    assert len(logs) > 5
    assert [path for path, content in logs.items() if anna.keys["secret_key"].encode() in content] == []
    served = parties.guest.log("fate_flow", "fate_flow_access.log")
    for name, path in (("anna", "data/upload"), ("bob", "job/stop"), ("carl", "job/list/job")):
        assert [line for line in served if f" - {name} [" in line and path in line], (name, path)


def test_a_revoked_key_opens_nothing_more(parties: Cluster, tmp_path: Path) -> None:
    """In no process of the server, at once, and after a restart."""
    dora = person(parties.guest, tmp_path, "dora", "submit", "operate")
    key = Signature(dora.keys["app_key"], dora.keys["secret_key"])

    def answers() -> set[int]:
        """What many connections get, which both processes accept."""
        versions = f"{parties.guest.url}/v1/version/get"
        return {requests.post(versions, json={}, auth=key, timeout=30).json()["retcode"] for _ in range(20)}

    assert answers() == {0}
    fate_flow(parties.guest, "client", "revoke", "dora")
    assert answers() == {109}
    parties.kill(GUEST)
    parties.start(GUEST)
    said = dora.refused("job", "list")
    assert (said["retcode"], "this key was revoked" in said["retmsg"]) == (109, True)
    parties.guest.flow("job", "list")


def test_two_people_of_a_party_approve_a_job(parties: Cluster, tmp_path: Path, document: tuple[str, ...]) -> None:
    frida, georg = (person(parties.host, tmp_path, name, "approve") for name in ("frida", "georg"))
    emil = person(parties.host, tmp_path, "emil", "submit", "operate")
    job_id = json.loads(parties.guest.flow("job", "submit", *document).out)["jobId"]

    def explained(party: PartyServer) -> Any:
        return party.ask("job/explain", {"job_id": job_id})

    eventually(lambda: "has not approved it" in explained(parties.guest)["wait_reason"], "it awaits the host")
    assert "needs approve; whoever runs" in emil.refused("job", "approve", "-j", job_id)["retmsg"]
    for name in ("frida", "georg"):         # whoever approves twice counts once
        said = json.loads(frida.flow("job", "approve", "-j", job_id, "--by", name, "--reason", "contract 7"))
        assert said["data"]["status"] == "pending"
        assert said["retmsg"].endswith("; it needs the approval of another person")
    found = explained(parties.host)
    assert (found["approval"]["status"], found["approval"]["by"]) == ("pending", "frida")
    assert "only frida at host 10000 has approved it" in found["wait_reason"]
    assert "has not approved it" in explained(parties.guest)["wait_reason"]
    said = json.loads(georg.flow("job", "approve", "-j", job_id, "--by", "georg"))
    assert said["data"] == {**said["data"], "status": "approved", "digest": found["approval"]["digest"]}
    parties.wait(job_id, "success")
    [seat] = [one for one in explained(parties.guest)["parties"] if one["role"] == "host"]
    assert seat["approval"] == "approved by frida and georg: contract 7"
    history = georg.flow("job", "history", "--table", "-j", job_id)
    assert "approved, as the first of two people, by frida: contract 7" in history
