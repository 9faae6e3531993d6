"""Whether a participant could ever give what the seats of a job at this party need together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fate_flow.core.model.resources import EngineSize, Request
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import counted


@dataclass(frozen=True)
class Excess:
    """More than this party can give; `what`: cores, memory or gpus, of which a job or its tasks ask for too much."""

    message: str
    what: str


def excess(requests: Collection[Request], size: EngineSize, party: Party, *, is_own: bool) -> Excess | None:
    """Return what the job asks for beyond all that this party could give; None if an idle engine would suffice.

    `requests`: of all seats at this party on one engine, which has `size`; `is_own`: the initiator is one of them. Only
    the party's own users learn how much it has."""
    cores, memory = sum(one.cores for one in requests), sum(one.memory for one in requests)
    if cores > size.job_limit:
        more = f"more than a job may have at {party}"
        most = f"a job may have at most {size.job_limit} at {party}" if is_own else more
        return Excess(f"asks for {counted(cores, 'core')}, {most}", "cores")
    if memory > size.memory and memory:
        most = f"{party} has {size.memory} in all" if is_own else f"more than {party} has"
        return Excess(f"asks for {memory} MB of memory, {most}", "memory")
    gpus = sum(one.gpus for one in requests)
    if gpus > size.gpus:
        most = f"{party} has {size.gpus} in all" if is_own else f"more than {party} has"
        return Excess(f"asks for {counted(gpus, 'GPU')}, {most}", "gpus")
    return None
