"""`fate_flow audit reconcile`: two parties' logs about each other, honest ones and those with planted lies."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from click.testing import Result

from fate_flow.cli.audit.record_reports import ACCUSED, BROKEN, NOT_ANCHORED, TROUBLE
from fate_flow.cli.server import audit as server_audit
from fate_flow.cli.server import audit_reconcile
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.access.key_list import read_key_list
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import read_count
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.offline.bundle import read_bundle
from fate_flow.core.wire.v1.paths import RECORD_LOG
from fate_flow.core.wire.v1.witnessing import LogPart, asked_part
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import make_private_key
from fate_flow.services.context.recording import record_answer, record_received
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.record.epochs import LOST, open_next_epoch
from fate_flow.services.record.reconciling import epochs_in
from fate_flow.services.use_cases.keys import save_key_list
from fate_flow.settings.reader import load_settings
from tests.kit.cli.audited_homes import Home, home_in, made_home
from tests.kit.values import GUEST, HOST, JOB_ID

Change = Callable[[Command], Command | None]
OTHER_JOB = "202601011200000000008"


def as_it_was(command: Command) -> Command:
    return command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parties; 9999 has the key list of 10000."""
    folder = tmp_path_factory.mktemp("made")
    guest, host = (made_home(_made(folder / party_id), party_id) for party_id in ("9999", "10000"))
    settings = load_settings(host.conf)
    signed = OwnKeys("10000", settings.keys_dir, settings.private_key, lambda: 0).signed_list()
    with home_context(load_settings(guest.conf)) as context:
        _, root = check_key_list(signed)
        save_key_list(context, read_key_list(signed.content), signed, root.key_id, True, "somebody")
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def guest(tmp_path: Path, made: Path) -> Home:
    copytree(made / "9999", tmp_path / "9999")
    return home_in(tmp_path / "9999")


@pytest.fixture
def host(tmp_path: Path, made: Path) -> Home:
    copytree(made / "10000", tmp_path / "10000")
    return home_in(tmp_path / "10000", "10000")


def talk(guest: Home, host: Home, count: int, change: Change = as_it_was, is_answered: bool = True) -> None:
    """The guest sends commands. The host records what `change` makes of one, or nothing, and acknowledges all."""
    for number in range(count):
        sent: list[Command] = []

        def send(unit: UnitOfWork, sent: list[Command] = sent, number: int = number) -> None:
            unit.send(Command(CommandKind.START, JOB_ID, HOST, 1, body={"number": number}))
            sent.extend(unit.pending.outgoing)

        guest.record(send)
        if (received := change(sent[0])) is not None:
            host.record(lambda unit, one=received: record_received(unit, one, "9999", Answer()))  # type: ignore[misc]
        if is_answered:
            answer = Answer(is_recorded=True)
            guest.record(lambda unit, one=sent[0], answer=answer: record_answer(unit, one, answer))  # type: ignore[misc]


def log_of(host: Home) -> str:
    found = proved(host)
    assert found.exit_code == 0, found.stderr
    return str(host.conf.with_name("with-9999.proof"))


def proved(host: Home) -> Result:
    return host.audit("prove", "-p", "9999", "-o", str(host.conf.with_name("with-9999.proof")))


def reconciled(guest: Home, path: str) -> tuple[Result, dict[str, int]]:
    found = guest.audit("reconcile", path, "-p", "10000", "--json")
    counts = json.loads(found.stdout)["counts"] if found.stdout else {}
    return found, {key: count for key, count in counts.items() if count}


def test_two_honest_parties_agree(guest: Home, host: Home) -> None:
    talk(guest, host, 3)
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (0, {"agreed": 3})


def test_a_message_that_was_lost_accuses_nobody(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    talk(guest, host, 1, lambda _: None, is_answered=False)
    talk(guest, host, 1)
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (0, {"agreed": 2, "in doubt": 1})


def test_a_party_that_has_said_that_it_was_restored_is_not_accused_of_what_it_lost(guest: Home, host: Home) -> None:
    talk(guest, host, 2)
    with home_context(load_settings(host.conf)) as context:
        context.write(lambda tx: open_next_epoch(tx, log_with("9999"), 1, LOST))
    talk(guest, host, 2)
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (0, {"agreed": 2, "in doubt": 2})


def begin_anew(home: Home, other: str) -> None:
    with home_context(load_settings(home.conf)) as context:
        context.write(lambda tx: open_next_epoch(tx, log_with(other), 1, LOST))


def test_what_was_signed_before_a_log_began_anew_is_compared_too(guest: Home, host: Home) -> None:
    talk(guest, host, 2)
    assert "earlier epoch" not in proved(host).stderr
    talk(guest, host, 1, lambda command: replace(command, body={"number": 9}))
    log_of(host)
    talk(guest, host, 1)
    begin_anew(host, "9999")
    begin_anew(guest, "10000")
    talk(guest, host, 2)
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (ACCUSED, {"agreed": 4, "altered": 1, "in doubt": 1})
    assert "1 entry of an earlier epoch cannot be proved" in proved(host).stderr
    messages = json.loads(found.stdout)["messages"]
    (altered,) = [one for one in messages if one["outcome"] == "altered"]
    assert (altered["ours"], altered["theirs"]) == ([[1, 4], [1, 5]], [[1, 2]])
    assert messages[-1]["theirs"] == [[2, 2]]
    assert "here #4, #5, at party 10000 #2" in guest.audit("reconcile", log_of(host), "-p", "10000").stdout


def test_a_party_whose_root_key_was_replaced_shows_its_whole_past(guest: Home, host: Home, tmp_path: Path) -> None:
    talk(guest, host, 2)
    log_of(host)
    settings, new = load_settings(host.conf), tmp_path / "root.pem"
    make_private_key(new)
    keys = OwnKeys("10000", settings.keys_dir, settings.private_key, now_on_the_wall)
    for signed in (keys.certify(next_root=new), keys.certify(root_file=new)):
        with home_context(load_settings(guest.conf)) as context:
            key_list, root = check_key_list(signed)
            save_key_list(context, key_list, signed, root.key_id, False, "somebody")
    talk(guest, host, 2)
    found, counts = reconciled(guest, log_of(host))
    assert (found.exit_code, counts) == (0, {"agreed": 4})
    assert host.audit("verify").exit_code == NOT_ANCHORED


def test_epochs_in_another_order_are_no_whole_log(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    log_of(host)
    begin_anew(host, "9999")
    path = Path(log_of(host))
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "entries": document["entries"][::-1]}), encoding="utf-8")
    found, _ = reconciled(guest, str(path))

    assert found.exit_code == TROUBLE
    assert "epoch 1 follows 2" in found.stderr


def test_a_file_from_before_a_message_accuses_nobody(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    path = log_of(host)
    talk(guest, host, 2)
    found, counts = reconciled(guest, path)

    assert (found.exit_code, counts) == (0, {"agreed": 1, "in doubt": 2})


def test_a_party_that_acknowledges_what_it_does_not_record_is_accused(guest: Home, host: Home) -> None:
    talk(guest, host, 1, lambda _: None)
    talk(guest, host, 1)
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (ACCUSED, {"agreed": 1, "missing": 1})
    (missing,) = [one for one in json.loads(found.stdout)["messages"] if one["outcome"] == "missing"]
    assert (missing["accused"], missing["theirs"]) == (["10000"], [])


def test_a_party_that_records_another_content_is_accused_with_the_other_one(guest: Home, host: Home) -> None:
    talk(guest, host, 1, lambda command: replace(command, body={"number": 9}))
    found, counts = reconciled(guest, log_of(host))

    assert (found.exit_code, counts) == (ACCUSED, {"altered": 1})


def test_a_party_that_writes_its_past_anew_is_accused_by_its_signatures(guest: Home, host: Home) -> None:
    untouched = host.folder.with_name("untouched")
    copytree(host.folder, untouched)
    talk(guest, host, 2)
    assert reconciled(guest, log_of(host))[0].exit_code == 0

    host.folder.rename(host.folder.with_name("first"))
    untouched.rename(host.folder)
    talk(guest, host, 3)
    found = guest.audit("reconcile", log_of(host), "-p", "10000")

    assert found.exit_code == ACCUSED
    assert "equivocation: message -" in found.stdout
    assert "party 10000 has signed 2 roots of" in found.stdout
    check_evidence(guest, host)


def check_evidence(guest: Home, host: Home) -> None:
    """A third person needs the file and the keys of the log alone."""
    file, policy = guest.conf.with_name("evidence.json"), guest.conf.with_name("policy")
    written = guest.audit("evidence", "-o", str(file))
    assert written.exit_code == ACCUSED
    assert "PROOF: party 10000 has signed" in written.stdout
    policy.write_text(host.audit("keys").stdout, encoding="utf-8")
    checked = guest.run("verify", str(file), "--policy", str(policy))
    assert checked.exit_code == ACCUSED, checked.stderr
    assert "with/9999/1: signed are 2 entries, and 3 that begin otherwise" in checked.stdout
    assert checked.stderr == "1 log has two pasts, signed by their own party\n"

    document = json.loads(file.read_text(encoding="utf-8"))
    other = {key: one.replace("/with/9999/1", "/with/9999/2") for key, one in document["evidence"][0].items()
             if key != "shown"}  # fmt: skip
    file.write_text(json.dumps({**document, "evidence": [other, *document["evidence"]]}), encoding="utf-8")
    checked = guest.run("verify", str(file), "--policy", str(policy))
    assert checked.exit_code == ACCUSED, checked.stderr
    assert checked.stderr.endswith("passed over: 1 log of which the policy has no key\n")
    del document["evidence"][0]["shown"]
    file.write_text(json.dumps(document), encoding="utf-8")
    checked = guest.run("verify", str(file), "--policy", str(policy))
    assert (checked.exit_code, checked.stdout) == (BROKEN, "")
    assert "nothing shows that the head of 2 entries is no beginning of the head of 3" in checked.stderr
    policy.write_text(guest.audit("keys").stdout, encoding="utf-8")
    assert "the policy has no key for the log" in guest.run("verify", str(file), "--policy", str(policy)).stderr


def test_no_file_is_written_without_evidence(guest: Home, host: Home) -> None:
    talk(guest, host, 2)
    assert reconciled(guest, log_of(host))[0].exit_code == 0
    file = guest.conf.with_name("evidence.json")
    found = guest.audit("evidence", "-o", str(file))
    assert (found.exit_code, file.exists()) == (TROUBLE, False)
    assert "nothing that this party has seen is proof" in found.stderr
    assert guest.audit("evidence").exit_code == 0


def test_a_log_that_has_grown_is_no_other_past(guest: Home, host: Home) -> None:
    for total in (2, 4):
        talk(guest, host, 2)
        found, counts = reconciled(guest, log_of(host))
        assert (found.exit_code, counts) == (0, {"agreed": total})


def test_a_file_without_an_entry_is_not_the_whole_log(guest: Home, host: Home) -> None:
    talk(guest, host, 3)
    path = Path(log_of(host))
    document = json.loads(path.read_text(encoding="utf-8"))
    for place in range(len(document["entries"])):
        less = {**document, "entries": [*document["entries"][:place], *document["entries"][place + 1 :]]}
        path.write_text(json.dumps(less), encoding="utf-8")
        found, _ = reconciled(guest, str(path))
        assert found.exit_code == TROUBLE
        assert f"entry {place} is missing" in found.stderr


def test_the_log_of_another_party_is_refused(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    path = guest.conf.with_name("own.proof")
    assert guest.audit("prove", "-p", "10000", "-o", str(path)).exit_code == 0
    found, _ = reconciled(guest, str(path))

    assert found.exit_code == TROUBLE
    assert "is not the log of party 10000" in found.stderr


def test_a_party_that_does_not_say_what_it_holds_is_named_and_changes_no_result(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    assert guest.audit("verify", "--ask").stderr == guest.audit("verify").stderr        # there is no way to ask it
    with guest.conf.open("a", encoding="utf-8") as conf:
        conf.write('routes: {"10000": {url: "http://127.0.0.1:1"}}\n')
    found = guest.audit("verify", "--ask")

    assert found.exit_code == NOT_ANCHORED
    assert "party 10000 has not said what it holds: party 10000 does not answer" in found.stderr


def test_a_party_without_a_saved_key_list_cannot_be_compared_with(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    found = guest.audit("reconcile", log_of(host), "-p", "10001")

    assert found.exit_code == TROUBLE
    assert "no key list of party 10001 is saved here" in found.stderr


# ---------------------------------------------------------------------- without a file: the other party is asked


@pytest.fixture
def asked(host: Home, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The other party answers with what it has proved last, and these parties were asked."""
    parties: list[str] = []

    def ask(to: Party, path: str, body: Mapping[str, Any]) -> Answer:
        parties.append(to.party_id)
        if path != RECORD_LOG or to.party_id != "10000":
            return Answer(UNREACHABLE, f"party {to.party_id} does not answer")
        proved = read_bundle(host.conf.with_name("with-9999.proof").read_text(encoding="utf-8")).entries
        epochs = {read_count(one.origin.rpartition("/")[2]): one for one in epochs_in(proved)}
        part = asked_part(body)
        number = part.epoch or min(epochs)
        entries = [one.decode() for one in epochs[number].contents[part.first :]]
        return Answer(data=LogPart(sorted(epochs), number, str(epochs[number].note), entries).as_data())

    for module in (audit_reconcile, server_audit):
        monkeypatch.setattr(module, "asking_others", lambda *_: ask)
    return parties


@pytest.mark.parametrize(("change", "code", "expected"), [
    (as_it_was, 0, {"agreed": 3}),
    (lambda command: replace(command, body={"number": 9}), ACCUSED, {"agreed": 2, "altered": 1}),
])
def test_a_party_is_asked_for_its_log(
    guest: Home, host: Home, asked: list[str], change: Change, code: int, expected: dict[str, int]
) -> None:
    talk(guest, host, 1, change)
    talk(guest, host, 2)
    log_of(host)                             # signs it
    found = guest.audit("reconcile", "-p", "10000", "--json")
    document = json.loads(found.stdout)

    assert (found.exit_code, {key: count for key, count in document["counts"].items() if count}) == (code, expected)
    assert (set(asked), {one["other"] for one in document["messages"]}) == ({"10000"}, {"10000"})


def test_a_log_that_is_written_anew_is_seen_by_the_head_that_was_handed_out(
    guest: Home, host: Home, asked: list[str]
) -> None:
    untouched = host.folder.with_name("untouched")
    copytree(host.folder, untouched)
    talk(guest, host, 2)
    log_of(host)
    assert guest.audit("reconcile", "-p", "10000").exit_code == 0
    host.folder.rename(host.folder.with_name("first"))
    untouched.rename(host.folder)
    talk(guest, host, 3)
    log_of(host)
    found = guest.audit("reconcile", "-p", "10000")

    assert (found.exit_code, "party 10000 has signed 2 roots of" in found.stdout) == (ACCUSED, True)
    assert asked == ["10000", "10000"]


@pytest.mark.usefixtures("asked")
def test_the_messages_of_a_job_are_compared_with_all_its_parties(guest: Home, host: Home) -> None:
    talk(guest, host, 2)
    log_of(host)
    guest.record(lambda unit: unit.send(Command(CommandKind.START, OTHER_JOB, HOST, 1)))
    of_job = guest.audit("reconcile", "-j", JOB_ID, "--json")
    of_other = guest.audit("reconcile", "-j", OTHER_JOB, "--json")
    counts = [json.loads(one.stdout)["counts"] for one in (of_job, of_other)]

    assert [(one["agreed"], one["in doubt"]) for one in counts] == [(2, 0), (0, 1)]
    assert guest.audit("reconcile", "-p", "10000", "--since", "2100-01-01").stderr == "no messages were recorded\n"
    none = guest.audit("reconcile", "-j", "202601011200000000009")
    assert (none.exit_code, "nothing is recorded about job" in none.stderr) == (TROUBLE, True)


@pytest.mark.usefixtures("asked")
def test_a_party_of_a_job_that_is_not_heard_is_named(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    log_of(host)
    guest.record(lambda unit: unit.send(Command(CommandKind.START, JOB_ID, Party("host", "10001"), 1)))
    found = guest.audit("reconcile", "-j", JOB_ID)

    assert found.exit_code == NOT_ANCHORED
    assert "the log of party 10001 was not compared: no key list of party 10001 is saved here" in found.stderr
    assert "agreed: 1" in found.stderr


@pytest.mark.usefixtures("asked")
def test_a_job_is_shown_with_the_times_and_words_of_both_sides(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    talk(guest, host, 1, lambda command: replace(command, body={"number": 9}))
    talk(guest, host, 1, lambda _: None, is_answered=False)
    host.record(lambda unit: unit.send(Command(CommandKind.STOP, JOB_ID, GUEST, 1)))
    log_of(host)
    alone = guest.audit("show", "-j", JOB_ID)
    found = guest.audit("show", "-j", JOB_ID, "--ask")
    assert (alone.exit_code, "word of" in alone.stdout) == (0, False)
    assert (found.exit_code, found.stderr) == (0, "")

    whose = Counter(re.split(r"\s{2,}", line.strip())[-3] for line in found.stdout.splitlines()[1:])
    assert whose == {
        "parties 9999 and 10000": 3, "parties 9999 and 10000, who contradict each other": 1, "party 9999": 1,
        "party 10000": 1,
    }, found.stdout  # fmt: skip
    [theirs] = [line for line in found.stdout.splitlines() if "party 10000: with/9999" in line]
    assert "to party 9999: stop guest 9999" in theirs

    entries = json.loads(guest.audit("show", "-j", JOB_ID, "--ask", "--as", "json").stdout)["entries"]
    assert [one["there"]["is_agreed"] for one in entries if "there" in one] == [True, True, False, True]
    assert [one["of"] for one in entries if "of" in one] == ["10000"]
    drawn = guest.audit("show", "-j", JOB_ID, "--ask", "--as", "mermaid").stdout
    assert drawn.count("(there ") == 4
    assert ", with another content)" in drawn
    assert "P10000->>P9999: " in drawn
    assert "(word of party 10000 alone)" in drawn
    assert "stop guest 9999" not in guest.audit("show", "-j", JOB_ID, "--ask", "--as", "fate-logs").stdout


@pytest.mark.usefixtures("asked")
def test_a_job_is_shown_without_a_party_that_is_not_heard(guest: Home, host: Home) -> None:
    talk(guest, host, 1)
    log_of(host)
    guest.record(lambda unit: unit.send(Command(CommandKind.START, JOB_ID, Party("host", "10001"), 1)))
    found = guest.audit("show", "-j", JOB_ID, "--ask")

    assert found.exit_code == 0
    assert "the log of party 10001 is not beside it: no key list of party 10001 is saved here" in found.stderr
    assert found.stdout.count("parties 9999 and 10000") == 2


def test_a_party_that_does_not_hand_out_its_log_is_named(
    guest: Home, host: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(guest, host, 1)
    silent = Answer(UNREACHABLE, "party 10000 does not answer")
    monkeypatch.setattr(audit_reconcile, "asking_others", lambda *_: lambda *_: silent)
    found = guest.audit("reconcile", "-p", "10000")

    assert found.exit_code == TROUBLE
    assert "party 10000 does not hand out its log: party 10000 does not answer" in found.stderr


@pytest.mark.parametrize(("options", "text"), [
    ((), "one of --party and --job-id is needed"), (("-p", "10000", "-j", JOB_ID), "one of --party and --job-id"),
    (("FILE", "-j", JOB_ID), "name it with --party"),
])
def test_what_is_to_be_compared_has_to_be_said(guest: Home, host: Home, options: tuple[str, ...], text: str) -> None:
    talk(guest, host, 1)
    found = guest.audit("reconcile", *(log_of(host) if one == "FILE" else one for one in options))

    assert (found.exit_code, text in found.stderr) == (2, True), found.stderr
