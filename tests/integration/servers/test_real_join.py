"""Two real servers that have never heard of each other, and the two commands that join them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.core.access.invitation import read_invitation
from fate_flow.peers.own_keys import OwnKeys
from tests.kit.servers.party_servers import GUEST, HOST, PartyServer, toy
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

PARTIES = (GUEST, HOST)
SECONDS = 300


@dataclass
class Strangers:
    """The servers, their configurations, and the addresses of their gateways."""

    servers: dict[str, PartyServer]
    confs: dict[str, Path]
    addresses: dict[str, str]

    def command(self, party_id: str, *arguments: str) -> list[str]:
        program = str(Path(sys.executable).with_name("fate_flow"))
        return [program, "party", *arguments, "-c", str(self.confs[party_id])]

    def run(self, party_id: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(party_id, *arguments), capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def join(self, text: str) -> subprocess.CompletedProcess[str]:
        """Let the host join, with the text on standard input."""
        return subprocess.run(
            self.command(HOST, "join"), input=text, capture_output=True, text=True, timeout=SECONDS, check=False
        )


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    root, ports = tmp_path_factory.mktemp("strangers"), Ports()
    free = filter(ports.is_free, range(26000 + os.getpid() % 400 * 8, 65536))
    servers, confs, addresses = {}, {}, {}
    try:
        for party_id in PARTIES:
            home, conf, port, parties = root / party_id, root / f"{party_id}.yaml", next(free), next(free)
            conf.write_text(yaml.safe_dump({
                "party_id": party_id, "home": str(home), "fateflow": {"http_port": port},
                "parties": {"listen": {"host": "127.0.0.1", "port": parties}},
                "authentication": {"client": {"switch": True}},
            }))
            home.mkdir()
            OwnKeys(party_id, home / "keys", home / "keys" / "message.pem", lambda: time.time_ns() // 1_000_000).make()
            service.start(conf, home)
            servers[party_id] = PartyServer(party_id, f"http://127.0.0.1:{port}", home)
            confs[party_id], addresses[party_id] = conf, f"https://127.0.0.1:{parties}"
        yield Strangers(servers, confs, addresses)
    finally:
        for party_id in PARTIES:
            service.kill(root / party_id)
        ports.close()


def lines_of(output: str) -> dict[str, str]:
    """What a command shows, by the first words of each line."""
    return {line[:13].strip(): line[13:].strip() for line in output.splitlines()}


def joined(strangers: Strangers) -> tuple[str, str, str]:
    """Let the guest invite the host, and the host join: the invitation, and what both commands have shown."""
    inviting = subprocess.Popen(
        strangers.command(GUEST, "invite", "--for", HOST), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert inviting.stdout is not None
    text = inviting.stdout.readline()
    done = strangers.join(text)
    assert done.returncode == 0, done.stdout + done.stderr
    shown, said = inviting.communicate(timeout=SECONDS)
    assert inviting.returncode == 0, shown + said
    return text, shown, done.stdout


def test_two_commands_join_two_servers_that_run(strangers: Strangers) -> None:
    text, shown, shown_there = joined(strangers)
    assert read_invitation(text).address == strangers.addresses[GUEST]
    here, there = lines_of(shown), lines_of(shown_there)
    assert len(here["six words"].split()) == 6
    assert here["six words"] == there["six words"]
    assert here["other party"] == f"{HOST} at {strangers.addresses[HOST]}"
    for output, own, other in ((shown, GUEST, HOST), (shown_there, HOST, GUEST)):
        assert f"{own} -> {other}: reaches it (TLSv1.3, key " in output
        assert f"{other} -> {own}: reaches this party" in output

    # Neither has a route in its configuration, and neither was started again.
    guest = strangers.servers[GUEST]
    answer = eventually(lambda: submitted(guest), "the parties to reach each other")
    eventually(lambda: guest.job(str(answer["jobId"]))["f_status"] == "success", "the end of the job")

    again = strangers.join(text)
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in again.stderr
    secret = read_invitation(text).secret
    for party_id in PARTIES:
        for path in strangers.servers[party_id].home.rglob("*"):
            if path.is_file() and not path.is_socket():
                content = path.read_bytes()
                assert text.strip().encode() not in content, path
                assert secret not in content, path
                assert secret.hex().encode() not in content, path


def submitted(guest: PartyServer) -> dict[str, object] | None:
    answer = guest.post("job/submit", toy())
    return answer if answer["retcode"] == 0 else None


def test_a_party_that_is_revoked_is_cut_off_and_comes_back_by_another_invitation(strangers: Strangers) -> None:
    guest, host = strangers.servers[GUEST], strangers.servers[HOST]
    [seen] = guest.ask("party/list")["parties"]
    assert (seen["party_id"], seen["url"], seen["status"]) == (HOST, strangers.addresses[HOST], "answers")
    contacts = seen["keys"]["contacts"]
    assert {direction: one["tls"] for direction, one in contacts.items()} == {"from": "TLSv1.3", "to": "TLSv1.3"}
    assert {one["key_id"] for one in contacts.values()} == set(seen["keys"]["tls_keys"])
    assert (seen["keys"]["state"], len(seen["keys"]["phrase"].split())) == ("joined", 6)

    assert strangers.run(HOST, "revoke", GUEST, "--reason", "contract 7 has ended").stdout == "party 9999 is revoked\n"
    eventually(lambda: submitted(guest) is None, "the guest to be refused")
    eventually(lambda: host.ask("party/list")["parties"] == [], "the route to be gone")
    assert strangers.run(HOST, "list").stdout.startswith(f"party {GUEST}: revoked since ")
    assert strangers.run(HOST, "remove", GUEST).returncode == 0

    joined(strangers)
    eventually(lambda: submitted(guest), "the parties to reach each other again")


def test_a_text_that_was_changed_is_refused_before_anything_is_sent(strangers: Strangers) -> None:
    done = strangers.join("fate-flow-invite:AbCdEf")
    assert (done.returncode, done.stdout) == (1, "")
    assert "a part of the text is missing or was changed" in done.stderr
