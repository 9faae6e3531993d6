"""Removal of the results of ended jobs at this party."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.services.artifacts.kind import Removed
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.upkeep.results import check_over, clean_job
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_who_asked
from fate_flow.store.values import Scope


class Results:
    """Tables, metrics and summaries of ended jobs."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def clean_job(self, scope: Scope, by: str = "") -> Mapping[str, Removed]:
        """Remove what tasks of an ended job made here, with all rows about it and the summaries.

        Returns what was removed, by kind of artifact.

        Raises JobNotFound; OperationFailed if the job is not over."""

        def clean(unit: UnitOfWork) -> Mapping[str, Removed]:
            removed = clean_job(unit, scope)
            note_who_asked(unit, scope.job_id, "removal of results requested", by)
            return removed

        return self._units.carry_out(clean)

    def drop_metrics(self, scope: Scope, by: str = "") -> int:
        """Remove the metrics of an ended job, and return how many. Raises the same errors as `clean_job`."""

        def drop(unit: UnitOfWork) -> int:
            check_over(unit, scope.job_id)
            note_who_asked(unit, scope.job_id, "removal of metrics requested", by)
            return unit.tx.drop_metrics(scope)

        return self._units.carry_out(drop)
