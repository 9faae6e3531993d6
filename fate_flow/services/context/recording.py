"""What use cases record beside the changes of statuses: answers, commands of other parties and what was decided about
them, workers, what the exchange has carried, and acts of people.

Each is an entry of the record, written by the transaction of what it is about. Without `record.switch` nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Answer, Command, Task, Worker
from fate_flow.core.record.carried import counts_of_seats
from fate_flow.core.record.entry import NewEntry
from fate_flow.services.context.ports import Context
from fate_flow.services.context.traces import trace_of
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.record.entries import (
    Question,
    Replied,
    of_act,
    of_answered,
    of_decision,
    of_exchange,
    of_question,
    of_received,
    of_reply,
    of_sent,
    of_worker,
)
from fate_flow.store.contract.transaction import Transaction


def recorded_hint(unit: UnitOfWork, hint: Command) -> Command:
    """Record a command that is sent once and not stored; return it with the number by which its receiver records it."""
    if not unit.context.keeps_record:
        return hint
    hint = changed(hint, trace=hint.trace or unit.trace(hint.job_id), salt=unit.context.fresh_salt())
    unit.pending = unit.pending.with_recorded(of_sent(hint, unit.now))
    return hint


def record_answer(unit: UnitOfWork, command: Command, answer: Answer) -> None:
    """Record the last answer of another party to a command of this one."""
    if unit.context.keeps_record and command.salt:
        unit.pending = unit.pending.with_recorded(of_answered(command, answer, unit.now))


def record_received(unit: UnitOfWork, command: Command, caller: str, answer: Answer) -> Answer:
    """Record a command of another party, the answer to it, and what was decided about it; return the answer, which says
    that it is recorded."""
    if not unit.context.keeps_record:
        return answer
    command = changed(command, trace=unit.trace(command.job_id) or command.trace)
    entry = of_received(command, caller, answer, unit.now, unit.context.fresh_salt)
    unit.pending = unit.pending.with_recorded(entry)
    decision = of_decision(command, caller, answer, unit.now, unit.context.fresh_salt)
    if decision is not None:
        unit.pending = unit.pending.with_recorded(decision)
    return changed(answer, is_recorded=True)


def record_act(unit: UnitOfWork, what: str, by: str, job_id: str = "", text: str = "") -> None:
    """Record what somebody has asked for. `by`: the name, which stays outside of the record; empty if clients need not
    sign. `text`: what is not for everybody who may once see the entry."""
    if unit.context.keeps_record:
        unit.pending = unit.pending.with_recorded(_entry_of_act(unit.context, unit.tx, what, by, job_id, text))


def record_worker(unit: UnitOfWork, worker: Worker, step: str, said: Mapping[str, Any]) -> None:
    """Record that a worker was `ordered` or has `ended`, with what it was given or has made."""
    unit.pending = unit.pending.with_recorded(of_worker(
        worker, step, unit.now, said, unit.trace(worker.task.job_id), unit.context.fresh_salt
    ))  # fmt: skip


def record_exchange(unit: UnitOfWork, task: Task) -> None:
    """Record what the exchange has carried for an attempt of a task that ends here now."""
    if unit.context.keeps_record:
        carried = counts_of_seats(unit.context.exchange.carried(task.key, task.incarnation))
        trace, fresh_salt = unit.trace(task.key.job_id), unit.context.fresh_salt
        for one in of_exchange(task.key, carried, unit.now, trace, fresh_salt):
            unit.pending = unit.pending.with_recorded(one)


def record_act_in(context: Context, tx: Transaction, what: str, by: str, text: str = "", job_id: str = "") -> None:
    """Record what the operator or client `by` has asked for, in a transaction that is no unit of work."""
    if context.keeps_record:
        tx.add_to_record([_entry_of_act(context, tx, what, by, job_id, text)])


def record_questions(
    context: Context, asked: Sequence[Question], what: str, by: str, job_id: str, trace: str
) -> None:  # fmt: skip
    """Record what other parties were asked for the client `by`, in one transaction. `trace`: of the request, if the
    questions are about no job that has one. Raises StorageFailed."""

    def write(tx: Transaction) -> None:
        who = tx.person_id(by, context.fresh_id()) if by else ""
        of = trace_of(context, tx, job_id) or trace
        tx.add_to_record([of_question(one, what, who, job_id, of, context.fresh_salt) for one in asked])

    if asked and context.keeps_record:
        context.write(write, is_repeatable=True)         # twice is better than an error after an answer


def record_reply(context: Context, one: Replied) -> None:
    """Record what another party is answered, before it gets the answer. Raises StorageFailed."""

    def write(tx: Transaction) -> None:
        tx.add_to_record([of_reply(one, context.clock(), trace_of(context, tx, one.job_id), context.fresh_salt)])

    if context.keeps_record:
        context.write(write, is_repeatable=True)


def _entry_of_act(context: Context, tx: Transaction, what: str, by: str, job_id: str, text: str) -> NewEntry:
    """A person who is new gets an id."""
    who = tx.person_id(by, context.fresh_id()) if by else ""
    trace = trace_of(context, tx, job_id)
    return of_act(context.clock(), what, who, job_id, trace, text, context.fresh_salt)
