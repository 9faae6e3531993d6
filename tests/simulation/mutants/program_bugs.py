"""Deliberate bugs in programs of several workers."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.replicas as replicas
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant import reserving
from fate_flow.services.workers import elastic, ending, launching, needs, outputs
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.memory import workers as memory_workers
from fate_flow.store.sql import resources
from fate_flow.store.sql import workers as worker_rows


def a_share_succeeds_with_its_first_worker() -> AbstractContextManager[Any]:
    def next_step(command: Any, present: Any) -> Any:
        return replicas.Done() if any(one.reason is Reason.DONE for one in present) else keep(command, present)

    keep = launching.next_step
    return patch.object(launching, "next_step", next_step)


def what_one_party_made_is_published_at_once() -> AbstractContextManager[Any]:
    def finish(unit: UnitOfWork, task: Any, *why: Any, **more: Any) -> None:
        keep(unit, task, *why, **more)
        now = unit.tx.task(task.key)
        if now is not None and now.party_status is TaskStatus.SUCCESS:
            outputs.publish_outputs(unit, now)

    keep = ending.finish_party_task
    stack = ExitStack()
    for module in (ending, launching):
        stack.enter_context(patch.object(module, "finish_party_task", finish))
    return stack


def elastic_workers_stay() -> AbstractContextManager[Any]:
    """Whoever waits for what they hold."""
    return patch.object(reserving, "reclaim_capacity", lambda *_: False)


def elastic_workers_begin_while_others_wait() -> AbstractContextManager[Any]:
    return patch.object(elastic, "_has_spare_capacity", lambda *_: True)


def elastic_workers_keep_their_cores() -> AbstractContextManager[Any]:
    keep = memory_workers.worker_moved
    return patch.object(memory_workers, "worker_moved", lambda *moved: {**keep(*moved), "cores": 0})


def elastic_workers_take_nothing() -> AbstractContextManager[Any]:
    """They run beside the books."""
    return patch.object(
        worker_rows, "taking", lambda name, *_: EngineRow.update(f_nodes=1).where(resources._engine_is(name))
    )


def two_workers_have_one_device() -> AbstractContextManager[Any]:
    """Each worker gets the first devices of the engine, whoever has them."""
    keep = needs.with_devices

    def with_devices(unit: Any, spec: Any, worker: Any) -> Any:
        found = keep(unit, spec, worker)
        pool = unit.context.engines.devices_of(worker.engine)
        return replace(found, devices=pool[: len(found.devices)])

    patches = ExitStack()
    for module in (launching, elastic):
        patches.enter_context(patch.object(module, "with_devices", with_devices))
    return patches
