"""How much memory and how many GPUs each seat of a job asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.services.context.ports import Context
from fate_flow.services.workers.placement import request_at


@dataclass(frozen=True)
class Asked:
    memory: int                  # MB; 0: the job states none
    gpus: int
    is_exact: bool               # False: at another party, whose settings are not known here
    by_engine: tuple[tuple[str, int, int], ...] = ()     # name, memory and GPUs, if there are several engines


def resources_of(context: Context, spec: JobSpec | None, parties: Sequence[Mapping[str, Any]]) -> Mapping[str, Asked]:
    """Return what each seat asks for, by its text. `parties`: as `explained` gives them. Other parties are left out if
    the document of the job cannot be read."""
    found = {}
    for one in parties:
        seat = Party(one["role"], one["party_id"])
        if engines := one["engines"]:
            several = tuple((at["engine"], at["memory"], at["gpus"]) for at in engines) if len(engines) > 1 else ()
            memory, gpus = sum(at["memory"] for at in engines), sum(at["gpus"] for at in engines)
            found[str(seat)] = Asked(memory, gpus, True, several)
        elif spec is not None and seat in spec.parameters:
            request = request_at(context, spec, seat)
            found[str(seat)] = Asked(request.memory, request.gpus, False)
    return found
