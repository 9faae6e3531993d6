"""Removing what the tasks of ended jobs have left at this party."""

from __future__ import annotations

from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.upkeep.results import Cleaned, check_over, clean_job
from fate_flow.services.use_cases.units import Units
from fate_flow.store.values import Scope


class Results:
    """Tables, metrics and summaries of ended jobs."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def clean_job(self, scope: Scope) -> Cleaned:
        """What tasks of an ended job left here goes: the tables they made, what is known of them, metrics, summaries.

        Raises JobNotFound; OperationFailed for a job that is not over."""
        return self._units.carry_out(lambda unit: clean_job(unit, scope))

    def drop_metrics(self, scope: Scope) -> int:
        """The metrics of an ended job go: how many. Raises as `clean_job`."""

        def drop(unit: UnitOfWork) -> int:
            check_over(unit, scope.job_id)
            return unit.tx.drop_metrics(scope)

        return self._units.carry_out(drop)
