"""One trace from the submit through all parties: kept with the job, sent with each command, and in each entry."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.entry import read_entry
from fate_flow.services.context.recording import record_act
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import RUN, a_host, create
from tests.kit.values import GUEST, HOST, JOB_ID

TRACE = "4b" * 16


def test_a_participant_keeps_the_trace_of_the_command_that_made_its_seat() -> None:
    host = a_host(replace(create(), trace=TRACE))
    with host.store.reading() as tx:
        assert tx.jobs_here(JOB_ID)[0].trace == TRACE


def test_a_participant_of_a_coordinator_that_names_none_has_a_trace_of_its_own() -> None:
    host = a_host(create())
    with host.store.reading() as tx:
        assert len(tx.jobs_here(JOB_ID)[0].trace) == 32


def test_commands_and_entries_about_a_job_have_its_trace() -> None:
    host = a_host(replace(RUN[0], trace=TRACE), *RUN[1:])
    object.__setattr__(host.context, "keeps_record", True)
    with host.unit() as unit:
        unit.send(Command(CommandKind.ASK_STOP, JOB_ID, GUEST, argument="canceled"))
        unit.moves(HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.STOPPING, party=HOST)
        record_act(unit, "stopped", "", JOB_ID)
        record_act(unit, "queue held", "")

    with host.store.reading() as tx:
        found = {str(read_entry(one.content)["kind"]): read_entry(one.content) for one in tx.unsealed_entries(9)}
        assert tx.commands_after(0)[-1].trace == TRACE
    assert {kind: one.get("trace") for kind, one in found.items()} == {"sent": TRACE, "status": TRACE, "act": None}


def test_a_command_about_a_job_that_is_not_here_has_none() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.send(Command(CommandKind.STANDING, JOB_ID, HOST))
    with server.store.reading() as tx:
        assert tx.commands_after(0)[0].trace == ""
