"""`fate_flow audit` and `fate_flow verify` on a home whose server does not run, and on a database that was changed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from fate_flow.cli.audit.record_reports import BROKEN, NOT_ANCHORED, TROUBLE
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.checkpoint import cosign
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import COSIGNATURE, read_note
from fate_flow.core.record.proof import read_entry_proof
from fate_flow.core.record.shown import ShownEntry
from fate_flow.services.context.recording import record_act, record_answer
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.record.reading import Wanted
from fate_flow.services.use_cases.who_asked import note_act
from fate_flow.store.sql.store import SqlTransaction
from tests.kit.cli.audited_homes import Home, home_in, made_home
from tests.kit.core.signers import Signer
from tests.kit.values import GUEST, HOST

JOB = "202311142213200000001"
ENTRIES = 6       # of the job, of which two are in the log with party 10000


@pytest.fixture
def home(tmp_path: Path, made: Home) -> Home:
    """A party with the record of one job."""
    copytree(made.folder, tmp_path / "home")
    return home_in(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Home:
    found = made_home(tmp_path_factory.mktemp("made"))
    found.record(a_job)
    return found


def a_job(unit: UnitOfWork) -> None:
    record_act(unit, "submitted", "alice", JOB)
    unit.moves(HistoryLevel.JOB, JOB, None, JobStatus.READY, party=GUEST)
    unit.moves(HistoryLevel.JOB, JOB, JobStatus.READY, JobStatus.WAITING, party=GUEST)
    unit.send(Command(CommandKind.START, JOB, HOST, 0))
    record_answer(unit, unit.pending.outgoing[0], Answer(0, is_recorded=True))
    message = "task a failed at table secret"
    unit.moves(
        HistoryLevel.JOB, JOB, JobStatus.RUNNING, JobStatus.FAILED, party=GUEST, reason=Reason.TASK_FAILED,
        message=message,
    )  # fmt: skip
    note_act(unit, "table deleted", "table t of namespace n was deleted", "bob")


def proof_file(home: Home, *options: str) -> Path:
    path = home.conf.with_name("job.proof")
    found = home.audit("prove", "-j", JOB, "-o", str(path), *options)
    assert found.exit_code == 0, found.stderr
    return path


def policy_file(home: Home, *lines: str) -> str:
    path = home.conf.with_name("policy")
    path.write_text("\n".join([home.audit("keys").stdout, *lines]), encoding="utf-8")
    return str(path)


def test_a_party_with_a_foreign_witness_is_signed_for_by_its_server_alone(home: Home) -> None:
    """The witness may hold a later state of the own log, and only the server asks it."""
    key = Signer("witness.example/a", COSIGNATURE).key.text()
    witnesses = f"{{public: {{url: 'https://witness.example', key: '{key}'}}}}"
    text = home.conf.read_text(encoding="utf-8").replace("{switch: true}", f"{{switch: true, witnesses: {witnesses}}}")
    home.conf.write_text(text, encoding="utf-8")
    found = home.audit("prove", "-j", JOB, "-o", str(home.conf.with_name("job.proof")))
    assert f"{ENTRIES} entries are not signed yet" in found.stderr


# ---------------------------------------------------------------------- reading


def test_a_job_is_shown_with_what_others_said_and_who_asked(home: Home) -> None:
    found = home.audit("show", "-j", JOB)

    assert found.exit_code == 0, found.stderr
    for text in (
        "alice: submitted", "job guest 9999: ready -> waiting", "to party 10000: start host 10000",
        "party 10000 has answered 0", "running -> failed (task_failed): task a failed at table secret", "with/10000 #0",
        "own #0",
    ):
        assert text in found.stdout


def test_a_job_is_shown_for_programs_and_as_a_diagram(home: Home) -> None:
    entries = json.loads(home.audit("show", "-j", JOB, "--as", "json").stdout)["entries"]
    assert len(entries) == ENTRIES
    assert json.loads(entries[0]["entry"])["what"] == "submitted"
    assert entries[0]["person"] == "alice"

    lines = home.audit("show", "-j", JOB, "--as", "mermaid").stdout.splitlines()
    assert lines[0] == "sequenceDiagram"
    assert sum("P9999->>P10000:" in line for line in lines) == 1
    assert sum("P10000-->>P9999:" in line for line in lines) == 1


def test_a_job_that_nobody_has_recorded_is_named(home: Home) -> None:
    found = home.audit("show", "-j", "202311142213200000009")

    assert found.exit_code == TROUBLE
    assert "nothing is recorded about job 202311142213200000009" in found.stderr


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--kind", "act"], 2), (["--person", "bob"], 1), (["--status", "failed"], 1), (["-p", "10000"], 2),
        (["-p", "10001"], 0), (["--since", "2100-01-01"], 0), (["--since", "2020-01-01T00:00:00"], 7), ([], 7),
        (["--person", "alice", "--kind", "status"], 0),
    ],
)  # fmt: skip
def test_entries_are_found_by_what_they_say(home: Home, options: list[str], count: int) -> None:
    found = home.audit("search", "--as", "json", *options)

    assert len(json.loads(found.stdout)["entries"]) == count


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("key", "announce", "--use", "record"), "key announced"), (("key", "certify"), "key list signed"),
        (("admin", "clean"), "removal of what is due by an operator"),
        (("admin", "clean", "--dry-run"), ""), (("admin", "clean", "--job", "202311142213200000009"), ""),
    ],
)  # fmt: skip
def test_an_act_of_an_operator_is_recorded_with_who_has_done_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], what: str
) -> None:  # fmt: skip
    for module in ("recorded_act", "admin"):
        monkeypatch.setattr(f"fate_flow.cli.server.{module}.login_name", lambda: "ann")
    home.run(*command)
    found = json.loads(home.audit("search", "--person", "ann", "--as", "json").stdout)["entries"]
    assert [json.loads(one["entry"])["what"] for one in found] == ([what] if what else [])


def test_an_entry_is_found_by_what_is_deep_in_it_or_in_its_text() -> None:
    said = {"kind": "act", "at": 7, "files": [{"sha256": "ab"}], "seat": "host 10000"}
    act = ShownEntry("own", 1, 0, "", said, text="of cd")
    assert [Wanted(digest=one).has(act) for one in ("ab", "cd", "abc", "a")] == [True, True, False, False]
    assert [Wanted(party=one).has(act) for one in ("10000", "1000", "host 10000")] == [True, False, False]


def test_an_entry_is_found_by_the_number_of_its_message(home: Home) -> None:
    sent = json.loads(home.audit("search", "--kind", "sent", "--as", "json").stdout)["entries"]
    number = json.loads(sent[0]["entry"])["number"]

    assert len(json.loads(home.audit("search", "--digest", number, "--as", "json").stdout)["entries"]) == 2
    assert home.audit("search", "--since", "yesterday").exit_code == 2


# ---------------------------------------------------------------------- verifying


def test_a_record_that_only_its_own_party_has_signed_is_never_called_valid(home: Home) -> None:
    proof_file(home)
    found = home.audit("verify")

    assert found.exit_code == NOT_ANCHORED
    assert found.stdout.count("consistent in itself") == 2
    assert "anchored" not in found.stdout


def test_a_changed_entry_is_named_in_a_database_file(home: Home) -> None:
    proof_file(home)
    for seed in range(12):
        index = Random(seed).randrange(4)
        where = "WHERE f_log = 'own' AND f_index = ?"
        with sqlite3.connect(home.folder / "fate_flow.sqlite") as database:
            (content,) = database.execute(f"SELECT f_content FROM t_record_entry {where}", (index,)).fetchone()
        home.change(f"UPDATE t_record_entry SET f_content = ? {where}", content.replace('"v":1', '"v":2'), index)
        found = home.audit("verify")
        assert found.exit_code == BROKEN
        assert f"BROKEN at entry {index}: the entry is not what was sealed" in found.stdout
        home.change(f"UPDATE t_record_entry SET f_content = ? {where}", content, index)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("DELETE FROM t_record_entry WHERE f_log = 'own' AND f_index = 2", "BROKEN at entry 2: the entry is missing"),
        ("DELETE FROM t_record_entry WHERE f_log = 'own' AND f_index >= 3", "BROKEN at entry 3: the entry is missing"),
        ("UPDATE t_record_entry SET f_kind = 'x' WHERE f_log = 'own' AND f_index = 1", "BROKEN at entry 1: kind, time"),
        ("UPDATE t_record_entry SET f_text = 'no' WHERE f_log = 'own' AND f_text <> ''", "BROKEN at entry 1: the text"),
        ("UPDATE t_record_head SET f_size = 4 WHERE f_log = 'own'", "BROKEN at entry 4: the head has 4 entries"),
        ("UPDATE t_record_checkpoint SET f_note = replace(f_note, 'own', 'one')", "BROKEN at entry 0: the checkpoint"),
        ("DELETE FROM t_record_batch WHERE f_log = 'own'", "BROKEN at entry 0: no batch has sealed the entry"),
    ],
)  # fmt: skip
def test_each_change_of_a_database_file_is_named(home: Home, statement: str, text: str) -> None:
    proof_file(home)
    home.change(statement)
    found = home.audit("verify", "--json")

    assert found.exit_code == BROKEN
    broken = [one for one in json.loads(found.stdout)["logs"] if one["state"] == "broken"]
    assert any(f"BROKEN at entry {one['broken_at']}: {one['why']}".startswith(text) for one in broken), broken


def test_an_erased_text_and_salt_leave_the_record_whole(home: Home) -> None:
    proof_file(home)
    home.change("UPDATE t_record_entry SET f_text = '', f_salt = ''")

    assert home.audit("verify").exit_code == NOT_ANCHORED


def test_what_the_server_records_while_its_record_is_verified_breaks_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copytree(home.folder, tmp_path / "later" / "home")
    later = home_in(tmp_path / "later")
    later.record(a_job)
    read, verified = SqlTransaction.checkpoints, list[str]()

    def then_the_server_goes_on(tx: SqlTransaction, log: str, epoch: int) -> tuple[StoredCheckpoint, ...]:
        if not verified:
            with sqlite3.connect(home.folder / "fate_flow.sqlite") as database:
                database.execute("ATTACH ? AS later", (str(later.folder / "fate_flow.sqlite"),))
                for table in ("entry", "batch", "head"):
                    name = f"t_record_{table}"
                    assert database.execute(f"REPLACE INTO {name} SELECT * FROM later.{name}").rowcount > 0
        verified.append(log)
        return read(tx, log, epoch)

    monkeypatch.setattr(SqlTransaction, "checkpoints", then_the_server_goes_on)
    before, after = home.audit("verify"), home.audit("verify")
    assert [one.exit_code for one in (before, after)] == [NOT_ANCHORED] * 2, before.stdout
    assert verified == ["own", "with/10000"] * 2
    assert ["5 entries" in one.stdout for one in (before, after)] == [True, False]


# ---------------------------------------------------------------------- proving


def test_a_third_person_checks_a_file_by_keys_alone(home: Home) -> None:
    path = proof_file(home)
    policy = policy_file(home)
    found = home.run("verify", str(path), "--policy", policy)

    assert found.exit_code == NOT_ANCHORED, found.stderr
    assert len(found.stdout.splitlines()) == ENTRIES
    assert "task a failed at table secret" in found.stdout
    assert f"{ENTRIES} entries proved by the signature of their own party alone" in found.stderr


def test_a_file_can_be_made_without_what_entries_commit_to(home: Home) -> None:
    path = proof_file(home, "--closed")
    found = home.run("verify", str(path), "--policy", policy_file(home))

    assert found.exit_code == NOT_ANCHORED
    assert "secret" not in path.read_text(encoding="utf-8") + found.stdout


def cosigned(path: Path) -> str:
    """Let a witness cosign each checkpoint in the file; return its key as a line of a policy."""
    witness = Signer("witness.example", COSIGNATURE)
    document = json.loads(path.read_text(encoding="utf-8"))
    for one in document["entries"]:
        note = read_note(str(read_entry_proof(one["proof"]).checkpoint))
        one["proof"] += cosign(note, witness.key, 1_700_000_000, witness.sign).line()
    path.write_text(json.dumps(document), encoding="utf-8")
    return f"witness hospital {witness.key.text()}"


def test_a_file_that_a_witness_has_cosigned_is_anchored(home: Home) -> None:
    path = proof_file(home)
    witness = cosigned(path)
    found = home.run("verify", str(path), "--policy", policy_file(home, witness, "quorum hospital"))

    assert found.exit_code == 0, found.stderr
    assert f"{ENTRIES} entries proved, and cosigned by hospital" in found.stderr


def test_a_file_without_the_cosignature_that_a_policy_asks_for_is_not_anchored(home: Home) -> None:
    path = proof_file(home)
    other = Signer("other.example", COSIGNATURE)
    witness = cosigned(path)
    lines = [witness, f"witness bank {other.key.text()}", "group both all hospital bank", "quorum both"]

    assert home.run("verify", str(path), "--policy", policy_file(home, *lines)).exit_code == NOT_ANCHORED


@pytest.mark.parametrize("key", ["entry", "proof", "text", "salt"])
def test_a_changed_file_is_not_proved(home: Home, key: str) -> None:
    path = proof_file(home)
    policy = policy_file(home)
    whole = json.loads(path.read_text(encoding="utf-8"))
    for seed in range(8):
        random, document = Random(seed), json.loads(json.dumps(whole))
        one = random.choice([one for one in document["entries"] if one.get(key)])
        at = random.randrange(len(one[key]))
        one[key] = one[key][:at] + ("0" if one[key][at] != "0" else "1") + one[key][at + 1 :]
        path.write_text(json.dumps(document), encoding="utf-8")
        assert home.run("verify", str(path), "--policy", policy).exit_code in (BROKEN, TROUBLE), (seed, one)


def test_what_a_replaced_record_key_has_signed_is_proved_by_the_lines_of_audit_keys(home: Home) -> None:
    before = proof_file(home).rename(home.conf.with_name("before.proof"))
    record_key = home.folder / "keys" / "record.pem"
    record_key.rename(record_key.with_name("record.2026.pem"))
    assert home.run("key", "make").exit_code == 0
    assert home.run("verify", str(before), "--policy", policy_file(home)).exit_code == NOT_ANCHORED
    lines = [one for one in home.audit("keys").stdout.splitlines() if one.startswith("log ")]
    assert [one.split("+")[0].rpartition("/own")[2] for one in lines if "/own/" in one] == ["/1"] * 2
    assert len(set(lines)) == 4

    home.record(a_job)
    after = proof_file(home)
    for path in (before, after):
        assert home.run("verify", str(path), "--policy", policy_file(home, *lines)).exit_code == NOT_ANCHORED
    assert len(home.audit("keys").stdout.splitlines()) == 3, "a line for each log, and one for cosignatures"


def test_the_key_of_another_party_proves_nothing(home: Home) -> None:
    path = proof_file(home)
    other = home.conf.with_name("other")
    other.write_text(f"log {Signer('another-log').key.text()}\n", encoding="utf-8")
    found = home.run("verify", str(path), "--policy", str(other))

    assert found.exit_code == BROKEN
    assert "the policy has no key for the log" in found.stderr


@pytest.mark.parametrize(
    "text", ["log x", "witness a b", "quorum nobody", "group g 2 a", "quorum none\nquorum none", "something"]
)
def test_a_policy_that_cannot_be_read_is_refused_by_its_line(home: Home, text: str) -> None:
    path = proof_file(home)
    policy = home.conf.with_name("policy")
    policy.write_text(f"# a comment\n{text}\n", encoding="utf-8")
    found = home.run("verify", str(path), "--policy", str(policy))

    assert found.exit_code == TROUBLE
    assert "line " in found.stderr
