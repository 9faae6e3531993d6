"""Carries out plans: each type of action has a handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.model.job import Command, Job
from fate_flow.core.planning.actions import (
    Action,
    AllRejoined,
    Arm,
    BeginAgain,
    BeginRound,
    Disarm,
    EndRound,
    ForceStop,
    Forget,
    LetBegin,
    LoseShares,
    MoveJob,
    MoveSeat,
    MoveTask,
    NewVersion,
    Progress,
    Rejoin,
    RenewReservation,
    RequeueJob,
    Restarted,
    RestartJob,
    Send,
)
from fate_flow.core.planning.gang import BEGINS
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.job_actions import (
    all_rejoined,
    arm,
    change_status,
    disarm,
    force_stop,
    forget,
    rejoin,
    requeue,
    restart,
    restarted,
    set_progress,
    wait_in_next_run,
)
from fate_flow.services.initiator.round_actions import ReservationRounds, move_seat, renew_reservation
from fate_flow.services.initiator.task_actions import lose_shares, move_task, new_version

Dispatch = Callable[[UnitOfWork, Command], None]
"""Sends a command: to the own party at once, to another one through the outbox."""

Handler = Callable[[UnitOfWork, Job, Any], None]


class PlanActions:
    """Carries out the actions of a plan, in the transaction that stores what led to it."""

    def __init__(self, dispatch: Dispatch, rounds: ReservationRounds) -> None:
        self._dispatch = dispatch
        self.handlers: Mapping[type, Handler] = {
            Send: self._send,
            LetBegin: self._let_begin,
            MoveJob: change_status,
            MoveSeat: move_seat,
            RenewReservation: renew_reservation,
            MoveTask: move_task,
            NewVersion: new_version,
            BeginRound: rounds.begin,
            EndRound: rounds.end,
            BeginAgain: wait_in_next_run,
            Rejoin: rejoin,
            AllRejoined: all_rejoined,
            RequeueJob: requeue,
            ForceStop: force_stop,
            Progress: set_progress,
            LoseShares: lose_shares,
            Arm: arm,
            Disarm: disarm,
            RestartJob: restart,
            Restarted: restarted,
            Forget: forget,
        }

    def carry_out(self, unit: UnitOfWork, job: Job, action: Action) -> None:
        self.handlers[type(action)](unit, job, action)

    def _send(self, unit: UnitOfWork, _: Job, action: Send) -> None:
        self._dispatch(unit, action.command)

    def _let_begin(self, unit: UnitOfWork, _: Job, action: LetBegin) -> None:
        unit.tx.note_waiting(action.share, BEGINS, unit.steady)      # so that it is sent once
        self._dispatch(unit, action.command)
