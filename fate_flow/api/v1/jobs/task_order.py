"""The order in which the tasks of a job are shown: that of its DAG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from fate_flow.core.model.errors import FlowError
from fate_flow.services.context.documents import spec_in_row
from fate_flow.services.context.ports import Context
from fate_flow.store.views.views import Views

_MOST_JOBS = 256


class TaskOrder:
    """A cache of the order of recently shown jobs: the order never changes, and documents are long."""

    def __init__(self, context: Context, views: Views) -> None:
        self._context = context
        self._views = views
        self._known = lru_cache(_MOST_JOBS)(self._read)

    def of(self, job_id: str) -> Sequence[str]:
        """Return the names of a job's tasks, each after those that it depends on; () if the document cannot be read."""
        return self._known(job_id)

    def _read(self, job_id: str) -> Sequence[str]:
        document = self._views.document(job_id)
        if document is None:
            return ()
        try:
            return tuple(spec_in_row(self._context, document).tasks)
        except FlowError:          # such as a document of an older release
            return ()
