"""What this party says now about a stream of another party to a worker of a running share."""

from __future__ import annotations

from fate_flow.core.model.job import TaskKey
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.use_cases.units import Units
from fate_flow.services.workers.allowed import why_not_now


class StreamChecks:
    """Looks at approval, grants and ceilings again: they may have changed since the worker was started."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def why_not(self, key: TaskKey) -> str:
        """Return why nobody may open a stream to this share now; empty if its other parties may."""

        def look(unit: UnitOfWork) -> str:
            spec = unit.spec(key.job_id)
            if spec is None or key.name not in spec.tasks:
                return f"job {key.job_id} is not known here"
            return why_not_now(unit, spec, key)

        return self._units.carry_out(look)
