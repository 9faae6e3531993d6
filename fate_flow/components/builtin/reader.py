"""Reader: hands a table of this party to the tasks that follow, without copying it.

Tables never change once they are there, so the same uri may be an output. If the table is dropped or overwritten
later, the tasks that follow, in a rerun for one, read what is there then; who asks for this output is not shown it
(`store/contract/transaction.py`, `handed_on`).
"""

from __future__ import annotations

import logging

from fate_flow.components.tables.table import Table
from fate_flow.components.worker.task import Metric, Outcome, TaskContext

log = logging.getLogger(__name__)


def run(task: TaskContext) -> Outcome:
    """The output is the named table itself."""
    wanted = task.parameters["table"]
    with Table(task.table_uri(wanted["namespace"], wanted["name"])) as table:     # every party knows this name
        info = table.metadata()
    log.info("read table %s in namespace %s: %s rows", info["name"], info["namespace"], info["count"])
    metric = Metric(
        "reader_namespace", "reader_name", [("count", table.count)],
        {"name": "reader", "metric_type": "data_info", "table_info": info},
    )
    return Outcome({"data": table.uri}, [metric], {"table_info": info})
