"""The record of real servers, a witness that is no party, and a checker made of libraries of Go (tests/kit/record)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.cli.server import service
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, cosigned_at
from fate_flow.core.record.note import read_note_key, sign_note
from fate_flow.core.record.offline.bundle import read_bundle
from fate_flow.core.record.offline.evidence import Evidence, evidence_text
from fate_flow.core.record.proof import read_entry_proof
from fate_flow.core.record.tree import consistency_proof, hash_by, is_consistent, leaf_hash, root_of
from tests.kit.core.signers import Signer, has_signed
from tests.kit.peers.small_witness import SmallWitness
from tests.kit.servers.party_servers import GUEST, HOST, toy
from tests.kit.servers.strangers import PARTIES, SECONDS, Strangers, strangers_at
from tests.kit.servers.warm import WARM, Done, start_server
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

CHECKER = "FATE_FLOW_TEST_RECORD_CHECKER"
VECTORS = Path(__file__).parents[2] / "docs" / "reference" / "record-vectors.json"


@pytest.fixture(scope="module")
def checked() -> Callable[..., Any]:
    """Run the checker: what it has found, or the text of its refusal."""
    program = os.environ.get(CHECKER)
    if not program:
        # Not quiet: a banner of bin/test --heavy says why there is none, and with CI=true the run fails.
        pytest.skip(f"{CHECKER} names no program (bin/test --heavy builds it)")

    def run(*arguments: object) -> Any:
        argv = [str(program), *map(str, arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    return run


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def policy(tmp_path: Path, vectors: dict[str, Any]) -> Path:
    path = tmp_path / "policy"
    logs = "".join(f"log {vectors[name]}\n" for name in ("own_log_key", "log_key"))
    path.write_text(f"{logs}witness 10000 {vectors['witness_key']}\nquorum 10000\n")
    return path


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13])
def test_a_log_that_others_have_made_is_checked_here(checked: Callable[..., Any], size: int) -> None:
    made = checked("make", size)
    log, witness = read_note_key(made["log_key"]), read_note_key(made["witness_key"])
    for index, (record, text) in enumerate(zip(made["records"], made["proofs"], strict=True)):
        proof = read_entry_proof(text)
        assert str(proof) == text
        assert (proof.index, proof.shows(record.encode()), proof.shows(b"another")) == (index, True, False)
        head = checked_checkpoint(proof.checkpoint, log, has_signed)
        assert head.size == size
        assert cosigned_at(proof.checkpoint, witness, has_signed) is not None
        beginning = made["beginnings"][index]
        hashes = [b64decode(one) for one in beginning["hashes"]]
        assert is_consistent(index + 1, b64decode(beginning["root"]), size, head.root, hashes)


def test_the_documented_examples_hold_for_others(
    checked: Callable[..., Any], vectors: dict[str, Any], policy: Path, tmp_path: Path
) -> None:
    bundle, segment = tmp_path / "job.proof", tmp_path / "segment"
    bundle.write_text(json.dumps(vectors["bundle"]))
    segment.write_bytes(b64decode(vectors["segment_file"]))

    found = checked("bundle", bundle, policy)
    assert [(one["origin"], one["index"], one["size"]) for one in found["entries"]] == [("MFRGG/own/1", 0, 2)]
    assert [one["cosigned"] for one in found["anchors"]] == [["10000"]]
    assert checked("segment", segment)["root"] == vectors["roots"][2]


def test_two_pasts_are_proof_for_others(checked: Callable[..., Any], tmp_path: Path) -> None:
    liar, file, policy = Signer("log.example/liar"), tmp_path / "evidence.json", tmp_path / "policy"
    policy.write_text(f"log {liar.key.text()}\n")
    one, another = ([leaf_hash(f"{past} {index}".encode()) for index in range(9)] for past in ("one", "another"))

    def head(leaves: list[bytes], size: int) -> str:
        text = Checkpoint(liar.key.name, size, root_of(leaves[:size])).text()
        return str(sign_note(text, liar.key, liar.sign))

    for size, larger in ((1, 1), (7, 7), (1, 2), (3, 7), (4, 8), (8, 9)):
        hashes = consistency_proof(size, larger, hash_by(another[:larger]))
        shown = (root_of(another[:size]), *hashes) if size < larger else ()
        lie = Evidence("10000", True, liar.key.name, size, head(one, size), head(another, larger), 1, shown)
        file.write_text(evidence_text([lie]))
        found = checked("evidence", file, policy)
        assert isinstance(found, dict), found
        assert found["evidence"] == [{"origin": liar.key.name, "sizes": [size, larger]}]
        for honest in (replace(lie, first=head(another, size)), replace(lie, second=head(one, larger))):
            file.write_text(evidence_text([honest]))
            assert isinstance(checked("evidence", file, policy), str), (size, larger)


def changed_texts(text: str) -> Iterator[str]:
    """A file with proofs, with one change of what is signed or committed to each time."""
    bundle = json.loads(text)
    for part in ("entries", "anchors"):
        for key in ("entry", "proof", "salt", "text", "consistency"):
            value = bundle[part][0].get(key)
            if isinstance(value, str):
                lines = value.splitlines()
                for number, line in enumerate(lines):
                    if line:
                        middle = len(line) // 2
                        other = line[:middle] + ("1" if line[middle] == "0" else "0") + line[middle + 1 :]
                        changed = "\n".join([*lines[:number], other, *lines[number + 1 :]])
                        yield json.dumps(_with(bundle, part, key, changed + "\n" * value.endswith("\n")))
            elif value:
                yield json.dumps(_with(bundle, part, key, value[1:]))


def _with(bundle: dict[str, Any], part: str, key: str, value: object) -> dict[str, Any]:
    first, *others = bundle[part]
    return {**bundle, part: [{**first, key: value}, *others]}


def test_a_changed_file_is_refused_by_both(
    checked: Callable[..., Any], vectors: dict[str, Any], policy: Path, tmp_path: Path
) -> None:
    bundle, texts = tmp_path / "job.proof", list(changed_texts(json.dumps(vectors["bundle"])))
    assert len(texts) > 15
    for text in texts:
        bundle.write_text(text)
        assert isinstance(checked("bundle", bundle, policy), str), text
        assert WARM.run("fate_flow", "verify", str(bundle), "--policy", str(policy), seconds=SECONDS).code != 0, text


@dataclass
class Witness:
    """A witness of somebody else that answers at `url`."""

    url: str
    small: SmallWitness

    @property
    def section(self) -> dict[str, Any]:
        """The section of a configuration that names it."""
        return {"record": {"switch": True, "witnesses": {"public": {"url": self.url, "key": self.small.vkey}}}}

    def kept(self) -> str:
        return str(self.small.kept)


@pytest.fixture
def witness() -> Iterator[Witness]:
    small = SmallWitness()
    with small.served() as url:
        yield Witness(url, small)


def own_log_of(strangers: Strangers, party_id: str) -> str:
    """The key of the newest own log, which its operator gives to the witness; empty if there is none yet."""
    lines = strangers.audit(party_id, "keys").out.splitlines()
    return next((line.split()[1] for line in reversed(lines) if line.startswith("log ") and "/own/" in line), "")


def make_known(strangers: Strangers, party_id: str, witness: Witness, before: str = "") -> str:
    """Give the witness the key of the own log, another one than before, and start the server again: otherwise it asks
    a witness that does not know its log ten minutes later. Return the key."""
    key = eventually(lambda: (found := own_log_of(strangers, party_id)) != before and found, "the own log")
    witness.small.knows(key)
    restart(strangers, party_id)
    return key


def restart(strangers: Strangers, party_id: str) -> None:
    conf = strangers.confs[party_id]
    service.kill(conf.with_suffix(""))
    start_server(conf, conf.with_suffix(""))


def verified(strangers: Strangers, party_id: str) -> dict[str, Any]:
    """What `audit verify` says of the own log."""
    logs = json.loads(strangers.audit(party_id, "verify", "--json").out)["logs"]
    return next(one for one in logs if one["log"] == "own")


def test_a_job_is_proved_to_others_by_their_own_witness(
    checked: Callable[..., Any], witness: Witness, tmp_path: Path
) -> None:
    """Two parties record a job; the witness of somebody else cosigns what the parties alone could not be believed."""
    with strangers_at(tmp_path, 26000, more=witness.section) as strangers:
        for party_id in PARTIES:
            make_known(strangers, party_id, witness)
        guest = strangers.servers[GUEST]
        inviting = strangers.invite()
        assert inviting.stdout is not None
        assert strangers.join(inviting.stdout.readline()).code == 0
        assert inviting.wait(SECONDS) == 0
        answer = eventually(lambda: (said := guest.post("job/submit", toy()))["retcode"] == 0 and said, "both parties")
        job_id = str(answer["jobId"])
        guest.wait(job_id, "success")

        proof, policy = tmp_path / "job.proof", tmp_path / "policy"
        lines = "".join(strangers.audit(party_id, "keys").out for party_id in PARTIES)
        policy.write_text(f"{lines}witness public {witness.small.vkey}\ngroup both all public {HOST}\nquorum both\n")

        def shown() -> Done:
            return WARM.run("fate_flow", "verify", str(proof), "--policy", str(policy), seconds=SECONDS)

        def is_proved() -> bool:
            assert strangers.audit(GUEST, "prove", "-j", job_id, "-o", str(proof)).code == 0
            logs = {one.origin.split("/")[1] for one in read_bundle(proof.read_text()).entries}
            return logs == {"own", "with"} and shown().code == 0

        # The own log is signed once a minute.
        eventually(is_proved, lambda: shown().err, seconds=SECONDS)
        found = checked("bundle", proof, policy)
        assert isinstance(found, dict), found
        own = [one for one in found["entries"] if "/own/" in one["origin"]]
        pairs = [one for one in found["entries"] if f"/with/{HOST}/" in one["origin"]]
        assert len(own) > 5
        assert len(pairs) > 5
        assert all(one["cosigned"] == ["public"] for one in own)
        assert all(one["cosigned"] == [HOST] for one in pairs)
        assert any(one["cosigned"] == [HOST] for one in found["anchors"])


def test_a_restored_backup_signs_no_second_past_before_the_witness(witness: Witness, tmp_path: Path) -> None:
    """A server comes back from a backup, and its witness holds more: it says so, and the own log begins anew."""
    with strangers_at(tmp_path, 26000, party_ids=(GUEST,), more=witness.section) as strangers:
        first = make_known(strangers, GUEST, witness)
        home, conf, backup = tmp_path / GUEST, strangers.confs[GUEST], tmp_path / "backup"

        def is_cosigned(least: int) -> int:
            found = verified(strangers, GUEST)
            enough = found["anchored_to"] == found["size"] > least and "public" in found["anchored_by"]
            return int(found["size"]) if enough else 0

        size = eventually(lambda: is_cosigned(0), witness.kept)
        service.kill(home)
        shutil.copytree(home, backup, ignore=shutil.ignore_patterns("run"))
        start_server(conf, home)
        held = eventually(lambda: is_cosigned(size), witness.kept)
        service.kill(home)
        shutil.rmtree(home)
        backup.rename(home)
        start_server(conf, home)

        make_known(strangers, GUEST, witness, before=first)
        said = strangers.audit(GUEST, "search", "--kind", "epoch").out
        assert f"witness public holds {held} entries" in said
        eventually(lambda: is_cosigned(0), witness.kept)
        assert witness.small.kept[first.partition("+")[0]][0] == held, "the epoch before has grown after the backup"
