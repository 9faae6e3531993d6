"""A party that has recorded a job, and what the other party has written about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fate_flow.core.access.key_list import read_key_list
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus, WorkerStatus
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.offline.bundle import bundle_text
from fate_flow.peers.key_changes import RecordKey
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.server.periodic.record_sealer import log_signer
from fate_flow.services.context.recording import record_act, record_answer, record_received
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.record.checkpoints import sign_heads
from fate_flow.services.record.proving import prove
from fate_flow.services.record.sealing import seal_new
from fate_flow.services.use_cases.keys import save_key_list
from fate_flow.settings.recording.exports import SyslogExport
from fate_flow.settings.recording.record import RecordSettings
from fate_flow.store.memory.store import MemoryStore
from tests.kit.api.client_world import START, World, make_world
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, HOST

JOB = "202311142213200000001"
SENT = Command(CommandKind.START, JOB, HOST, 0)


def recorded_world(folder: Path) -> World:
    """A world whose party has recorded a job, and sealed it."""
    world = make_world(folder, keeps_record=True)
    record_job(world)
    return world


def add_exports(world: World, *names: str) -> None:
    """Let the configuration of the party name exports of its record."""
    exports = tuple(SyslogExport(one, "127.0.0.1", 1, False) for one in names)
    settings = replace(world.services.settings, recording=RecordSettings(True, (), exports))
    object.__setattr__(world.services, "settings", settings)


def record_job(world: World) -> None:
    with unit_of_work(world.services.context) as unit:
        a_job(unit)
    world.services.context.write(lambda tx: seal_new(tx, START))


def a_job(unit: UnitOfWork) -> None:
    record_act(unit, "submitted", "alice", JOB)
    unit.moves(HistoryLevel.JOB, JOB, JobStatus.WAITING, JobStatus.RUNNING, party=GUEST)
    unit.send(SENT)
    record_answer(unit, unit.pending.outgoing[0], Answer(0, is_recorded=True))
    unit.moves(HistoryLevel.WORKER, JOB, WorkerStatus.CREATED, WorkerStatus.RUNNING, party=GUEST, task="a")
    unit.moves(HistoryLevel.PARTY_TASK, JOB, TaskStatus.RUNNING, TaskStatus.FAILED, party=GUEST, task="a")
    message = "no <table> & nothing else;\nnote"
    unit.moves(
        HistoryLevel.JOB, JOB, JobStatus.RUNNING, JobStatus.FAILED, party=GUEST, reason=Reason.TASK_FAILED,
        message=message,
    )  # fmt: skip


def their_file(world: World, folder: Path, answer: Answer) -> str:
    """What party 10000 has written about this one; its key list is saved here."""
    keys = OwnKeys("10000", folder / "keys", folder / "keys" / "message.pem", lambda: START)
    keys.make()
    signed = keys.signed_list()
    _, root = check_key_list(signed)
    context = world.services.context
    save_key_list(context, read_key_list(signed.content), signed, root.key_id, True, "somebody")
    signer, store = log_signer(RecordKey(folder / "keys"), START), MemoryStore()
    assert signer is not None
    host = HandServer("10000", store=store)
    object.__setattr__(host.context, "keeps_record", True)
    sent = context.read(lambda tx: tx.commands_after(0)[0])
    with host.unit() as unit:
        record_received(unit, sent, "9999", answer)
    with store.transaction() as tx:
        while seal_new(tx, START):
            pass
        sign_heads(tx, signer, START, host.context.fresh_salt)
        entries = tx.sealed_entries(log_with("9999"), 1, 0, 100)
        return bundle_text([*prove(tx, entries)])
