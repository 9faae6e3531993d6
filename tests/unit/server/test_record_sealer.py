"""The threads that keep the record: when they work, what they read for it, and what they write down of own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from fate_flow import __version__
from fate_flow.core.access.key_list import RECORD
from fate_flow.core.model.errors import BadSettings, StorageFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, new_entry, read_entry
from fate_flow.core.record.sentences import sentence_of
from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.wire.v1.witnessing import QUESTION, Held, asked_held
from fate_flow.peers import key_changes
from fate_flow.peers.key_changes import RecordKey
from fate_flow.peers.key_files import LIST_FILE
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.site_key import PrivateKey, has_signed, load_private_key
from fate_flow.relay.wakeup import QuietWakeup, Wakeup
from fate_flow.server.periodic import record_sealer
from fate_flow.server.periodic.record_sealer import POLL_SECONDS, SEAL_SECONDS, RecordSealer, log_signer, own_list
from fate_flow.server.periodic.record_witnesses import RecordWitnesses
from fate_flow.server.periodic.server_steps import ServerSteps, own_server
from fate_flow.services.record.checkpoints import any_log
from fate_flow.services.record.entries import OwnServer
from fate_flow.services.record.sealing import Seals
from fate_flow.services.witnesses.cosigning import Cosigning
from fate_flow.settings.reader import load_settings
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.database.opening import open_database
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.sql.store import SqlStore
from tests.kit.services.hand_server import HandServer
from tests.kit.services.records import an_entry, without_peers
from tests.kit.services.witness_parties import WitnessParty
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.kit.values import NOW


def asked_by_all(server: HandServer) -> Cosigning:
    """Where a party stands that knows no other one, and has no key."""
    return without_peers(server.context, lambda: None)


def test_the_own_key_list_is_recorded_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    server, keys = HandServer(), OwnKeys("9999", tmp_path, tmp_path / "message.pem", lambda: NOW)
    sealer = RecordSealer(
        server.context, without_peers(server.context, lambda: None), lambda: True, lambda: None, lambda: 0.0,
        QuietWakeup(), lambda: own_list(tmp_path),
    )  # fmt: skip
    sealer.sign()
    keys.make()
    for _ in range(2):
        sealer.sign()
    keys.announce("tls", 60_000)
    sealer.sign()

    with server.store.reading() as tx:
        found = [read_entry(one.content) for one in tx.unsealed_entries(9)]
    assert [(one["kind"], one["number"]) for one in found] == [("keys", 1), ("keys", 2)]
    assert len({one["list"] for one in found}) == 2


def test_a_home_without_a_record_key_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    server = HandServer()
    sealer = RecordSealer(
        server.context, asked_by_all(server), lambda: True, lambda: None, lambda: 0.0, QuietWakeup()
    )
    for _ in range(2):
        sealer.sign()
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("WARNING", "there is no record key: the heads of the record are not signed (fate_flow key make)")
    ]


def test_the_record_says_when_a_server_was_started_and_stopped_and_that_it_was_off(tmp_path: Path) -> None:
    server, ends = HandServer(), list[str]()
    steps = ServerSteps(server.context, OwnServer("1.2", "conf ab", "a"))
    steps.stopped()
    steps.is_off()                       # there is no record yet
    sealer = RecordSealer(
        server.context, asked_by_all(server), lambda: True, lambda: ends.append("closed"), lambda: 0.0, QuietWakeup(),
        steps=steps,
    )  # fmt: skip
    for _ in range(2):
        sealer.step()
    sealer.start()
    sealer.stop()
    ServerSteps(server.context, OwnServer("1.3", "")).is_off()

    assert ends == ["closed"]
    with server.store.reading() as tx:
        entries = (*tx.sealed_entries(OWN_LOG, 1, 0, 9), *tx.unsealed_entries(9))
        found = [(read_entry(one.content), one.text) for one in entries]
    assert [(one["kind"], one["step"], one["release"], one.get("server"), text) for one, text in found] == [
        ("server", "started", "1.2", "a", "conf ab"),
        ("server", "stopped", "1.2", "a", "conf ab"),
        ("server", "off", "1.3", None, ""),
    ]
    shown = [sentence_of(ShownEntry(OWN_LOG, 1, 0, "", one, "", text)) for one, text in found]
    assert shown == [
        "server a of release 1.2 was started: conf ab",
        "server a of release 1.2 was stopped: conf ab",
        "server of release 1.3 was started without a record (record.switch)",
    ]


def test_a_server_whose_database_is_away_at_its_start_says_later_that_it_was_started_and_ends_all_the_same() -> None:
    server = HandServer()
    steps = ServerSteps(server.context, OwnServer("1.2", ""))
    is_away = True

    def write(act: Callable[[Any], Any], is_repeatable: bool = False) -> Any:
        if is_away:
            raise StorageFailed("away")
        with server.store.transaction() as tx:
            return act(tx)

    object.__setattr__(server.context, "write", write)
    with pytest.raises(StorageFailed):
        steps.started()
    is_away = False
    steps.started()
    is_away = True
    steps.stopped()
    with server.store.reading() as tx:
        assert [read_entry(one.content)["step"] for one in tx.unsealed_entries(9)] == ["started"]


def test_the_configuration_of_a_server_is_known_by_the_digests_of_its_files(tmp_path: Path) -> None:
    file, overlay = tmp_path / "service_conf.yaml", tmp_path / "local.service_conf.yaml"
    file.write_text('{party_id: "9999", home: home}', encoding="utf-8")
    settings = load_settings(file)
    said = f"service_conf.yaml {sha256(file.read_bytes()).hexdigest()}"
    assert own_server(settings) == OwnServer(__version__, said)
    overlay.write_text('{party_id: "10000"}', encoding="utf-8")
    digest = sha256(overlay.read_bytes()).hexdigest()
    assert own_server(settings).configuration == f"{said}, local.service_conf.yaml {digest}"
    assert own_server(replace(settings, conf_path=Path())).configuration == ""


def test_one_transaction_seals_what_has_come_since_the_first_entry() -> None:
    server, wakeup = HandServer(), QuietWakeup()
    with server.store.transaction() as tx:
        tx.add_to_record([an_entry(one) for one in "abc"])
    sealer = RecordSealer(server.context, asked_by_all(server), lambda: True, lambda: None, lambda: 0.0, wakeup)
    for _ in "abc":
        wakeup.wake()
    sealer.rest(60.0)
    pause = sealer.step()

    with server.store.reading() as tx:
        assert tx.unsealed_entries(1) == ()
        assert [batch.ids for batch in tx.batches(OWN_LOG, 1, 0, 9)] == [(1, 2, 3)]
    assert pause == POLL_SECONDS
    assert wakeup.wait(0) == [], "the other wake-ups were about the same entries"


def test_a_sealer_that_was_woken_looks_by_itself_until_nothing_has_come_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server, wakeup, sent = HandServer(), QuietWakeup(), list[str]()
    sealer = RecordSealer(server.context, asked_by_all(server), lambda: True, lambda: None, lambda: 0.0, wakeup)
    monkeypatch.setattr(record_sealer, "_GATHER_SECONDS", 0.0)
    monkeypatch.setattr(record_sealer, "_TICK_SECONDS", 0.001)
    send = Wakeup.wake
    monkeypatch.setattr(Wakeup, "wake", lambda self, payload=b"": (sent.append("woken"), send(self, payload)))

    def add() -> None:
        with server.store.transaction() as tx:
            tx.add_to_record([an_entry("a")])
        wakeup.wake()

    def looks() -> int:
        sealer.rest(0.01)
        sealer.step()
        with server.store.reading() as tx:
            return len(tx.unsealed_entries(9))

    assert looks() == 0
    for _ in range(5):
        add()
        assert looks() == 0
        assert sent == ["woken"]
    for _ in range(20):
        assert looks() == 0
    add()
    assert sent == ["woken", "woken"]
    assert looks() == 0


def test_entries_of_a_log_whose_head_moves_meanwhile_are_sealed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes are computed while others write; so another process may seal, or open the next epoch, before the seal."""
    server = HandServer()
    sealer = RecordSealer(server.context, asked_by_all(server), lambda: True, lambda: None, lambda: 0.0, QuietWakeup())

    def add(name: str) -> None:
        with server.store.transaction() as tx:
            tx.add_to_record([an_entry(name)])

    add("a")
    put, calls = record_sealer.put_seals, list[int]()

    def moved(tx: Transaction, seals: Seals) -> int:
        calls.append(len(seals))
        if len(calls) == 1:
            assert tx.open_epoch(tx.record_head(OWN_LOG), 7)
        return put(tx, seals)

    monkeypatch.setattr(record_sealer, "put_seals", moved)
    assert sealer.step() == SEAL_SECONDS
    with server.store.reading() as tx:
        assert len(tx.unsealed_entries(9)) == 1
    add("b")
    assert sealer.step() == POLL_SECONDS
    with server.store.reading() as tx:
        assert tx.unsealed_entries(9) == ()
        assert [one.index for one in tx.sealed_entries(OWN_LOG, 7, 0, 9)] == [0, 1]


def test_heads_are_signed_in_a_pause_after_a_job_has_ended_and_after_five_seconds_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server, now, signed = HandServer(), [1000.0], list[float]()
    asked = asked_by_all(server)
    sealer = RecordSealer(server.context, asked, lambda: True, lambda: None, lambda: now[0], QuietWakeup())
    sealer.step()
    sign = sealer.sign

    def noted(logs: Callable[[str], bool] = any_log) -> None:
        signed.append(now[0] - 1000)
        sign(logs)

    monkeypatch.setattr(sealer, "sign", noted)

    def passes(seconds: float, status: str = "") -> None:
        now[0] += seconds
        if status:
            with server.store.transaction() as tx:
                fields = {"level": "job", "new": status}
                tx.add_to_record([new_entry(OWN_LOG, Kind.STATUS, NOW, fields, job_id="1")])
        pause = sealer.step()
        assert status or pause > 0

    passes(1.0, "running")
    passes(1.0)
    assert signed == [], "no job has ended"
    passes(1.0, "success")
    passes(0.75)
    passes(0.25)
    assert signed == [4.0], "in the pause"
    passes(0.25, "success")
    for _ in range(9):
        passes(0.5, "running")
    assert signed == [4.0]
    passes(0.5, "success")
    assert signed == [4.0, 9.25], "jobs have left no pause"
    passes(1.0)
    assert signed == [4.0, 9.25], "what ended in that moment was signed"
    passes(9.0)
    assert signed == [4.0, 9.25, 19.25]


def test_entries_without_a_wake_up_are_found(tmp_path: Path) -> None:
    server = HandServer()
    sealer = RecordSealer(server.context, asked_by_all(server), lambda: True, lambda: None, lambda: 0.0, QuietWakeup())
    with server.store.transaction() as tx:
        tx.add_to_record([an_entry("a")])
    sealer.rest(0.0)
    sealer.step()

    with server.store.reading() as tx:
        assert tx.unsealed_entries(1) == ()


def test_the_store_calls_for_entries_once_they_are_committed() -> None:
    store, calls = sqlite_in_memory(), list[int]()
    calling = SqlStore(store.database, recorded=lambda: calls.append(1))
    with calling.transaction() as tx:
        tx.add_to_record([])

    def fail() -> None:
        with calling.transaction() as tx:
            tx.add_to_record([an_entry("a")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert calls == []
    with calling.transaction() as tx:
        tx.add_to_record([an_entry("a")])
        tx.add_to_record([an_entry("b")])
        assert calls == []
    assert calls == [1]


def test_commits_wait_for_the_disk_again_after_the_block_in_which_they_do_not(tmp_path: Path) -> None:
    database = open_database("", tmp_path)
    store = SqlStore(database)
    waits = [database.pragma("synchronous")]

    def fail() -> None:
        with store.without_sync():
            waits.append(database.pragma("synchronous"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    waits.append(database.pragma("synchronous"))
    with store.without_sync():
        store.close()
    waits.append(database.pragma("synchronous"))
    store.close()
    assert waits == [2, 1, 2, 2]         # FULL, NORMAL


class _BesideTheDisk:
    """A store that notes of each transaction that writes whether its commit waits for the disk."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._waits = store, True
        self.waits: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self._store.transaction() as tx:
            yield tx
        self.waits.append(self._waits)

    @contextmanager
    def without_sync(self) -> Iterator[None]:
        self._waits = False
        yield
        self._waits = True


def test_of_what_signs_the_last_transaction_alone_waits_for_the_disk() -> None:
    memory = MemoryStore()
    store = _BesideTheDisk(memory)
    context = HandServer(store=store).context
    sealer = RecordSealer(
        context, without_peers(context), lambda: True, lambda: None, lambda: 0.0, QuietWakeup(),
        without_sync=store.without_sync,
    )  # fmt: skip
    with memory.transaction() as tx:
        tx.add_to_record([an_entry("a")])
    store.waits.clear()
    sealer.sign()
    assert store.waits == [False, True]


def test_the_keys_of_the_record_are_read_again_only_if_their_files_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def load(file: Path) -> PrivateKey:
        read.append(file.name)
        return load_private_key(file)

    monkeypatch.setattr(key_changes, "load_private_key", load)
    key = RecordKey(tmp_path)
    assert log_signer(key, NOW) is None
    keys = OwnKeys("9999", tmp_path, tmp_path / "message.pem", lambda: NOW)
    keys.make()
    first = log_signer(key, NOW)
    assert first is not None
    assert set(read) == {"record.pem"}
    read.clear()
    assert (log_signer(key, NOW), read) == (first, [])

    keys.announce(RECORD, 60_000)
    announced = log_signer(key, NOW)
    assert announced is not None
    assert (announced.key, len(announced.earlier)) == (first.key, 1)
    later = log_signer(key, NOW + 60_000)
    assert later is not None
    assert (later.key, later.earlier) == (announced.earlier[0], (first.key,))


def test_a_party_that_is_silent_holds_up_no_other_one() -> None:
    guest, witnessed = WitnessParty("9999", "10000", "10001"), list[str]()
    is_heard = Event()

    def ask(to: Party, endpoint: str, body: Mapping[str, object]) -> Answer:
        assert body["after"] == "", "nothing is signed yet"
        if to.party_id == "10000":
            assert is_heard.wait(30), "the other one was not heard meanwhile"
        return Answer(0, data=Held(()).as_data())

    class Hearing(Cosigning):
        def holds(self, party_id: str, said: Held, question: str = "") -> None:
            witnessed.append(party_id)
            super().holds(party_id, said, question)
            is_heard.set()

    cosigning = Hearing(guest.context, lambda: guest.keys.signer, has_signed, lambda: guest.passed)
    work = RecordWitnesses(cosigning, ask, lambda *_: (0, ""), lambda: True, lambda: None)
    work.step()
    assert witnessed == ["10001", "10000"]
    assert work.step() == 2.0, "nothing is to be asked or offered"
    work.start()
    work.stop()


@pytest.mark.parametrize(
    "said", [{"acknowledged": ["9" * 70_000]}, {"checkpoints": ["a\ud800\n1\n\n\u2014 a AAAAAAA=\n"]}]
)
def test_a_party_that_answers_anything_at_all_holds_up_no_other_one(said: Mapping[str, object]) -> None:
    """The strange answer comes first, and is taken before that of the other party."""
    guest, host = WitnessParty("9999", "10000", "10001"), WitnessParty("10000", "9999")
    guest.record_with("10000", "a")
    is_taken = Event()

    class Hearing(Cosigning):
        def holds(self, party_id: str, said: Held, question: str = "") -> None:
            if party_id == "10001":
                is_taken.set()
            super().holds(party_id, said, question)

    def ask(to: Party, endpoint: str, body: Mapping[str, object]) -> Answer:
        if to.party_id == "10001":
            return Answer(0, data={**Held(()).as_data(), **said})
        assert is_taken.wait(30)
        return Answer(0, data=host.witnessing.held_of("9999", asked_held(body)).as_data())

    def ask_text(to: Party, endpoint: str, text: str, more: Mapping[str, str]) -> tuple[int, str]:
        reply = host.witnessing.add_checkpoint("9999", text, more[QUESTION])
        return reply.status, reply.text

    cosigning = Hearing(guest.context, lambda: guest.keys.signer, has_signed, lambda: guest.passed)
    guest.cosigning = cosigning
    work = RecordWitnesses(cosigning, ask, ask_text, lambda: True, lambda: None)
    work.step()
    guest.sign()
    work.step()
    assert guest.verified(log_with("10000")).anchored_by == "10000"
    work.start()
    work.stop()


def test_an_answer_that_cannot_be_taken_holds_up_no_other_one_and_is_tried_again() -> None:
    guest, taken = WitnessParty("9999", "10000", "10001"), list[str]()
    is_taken = Event()

    class Failing(Cosigning):
        def holds(self, party_id: str, said: Held, question: str = "") -> None:
            taken.append(party_id)
            is_taken.set()
            if party_id == "10001":
                raise ZeroDivisionError

    def ask(to: Party, endpoint: str, body: Mapping[str, object]) -> Answer:
        assert to.party_id == "10001" or is_taken.wait(30)
        return Answer(0, data=Held(()).as_data())

    cosigning = Failing(guest.context, lambda: guest.keys.signer, has_signed, lambda: guest.passed)
    work = RecordWitnesses(cosigning, ask, lambda *_: (0, ""), lambda: True, lambda: None)
    with pytest.raises(ZeroDivisionError):
        work.step()
    assert taken == ["10001", "10000"]
    assert "10001" in cosigning.questions()
    work.start()
    work.stop()


def test_a_key_list_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / LIST_FILE).write_text("{", encoding="utf-8")
    with pytest.raises(BadSettings, match=LIST_FILE):
        own_list(tmp_path)
