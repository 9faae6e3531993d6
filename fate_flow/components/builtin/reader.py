"""Reader: hands a table of this party to the following tasks, without copying it.

Finished tables never change, so the same uri can be an output. If the table is dropped or overwritten later, following
tasks (in a rerun, for example) read the table that exists then; but a client that asks for this output does not get
the new table (`handed_on` in `store/contract/transaction.py`).
"""

from __future__ import annotations

import logging

from fate_flow.components.tables.table import Table
from fate_flow.components.worker.task import Metric, Outcome, TaskContext

log = logging.getLogger(__name__)

METRIC = "metric"           # the key of the output that every component has


def run(task: TaskContext) -> Outcome:
    """Return the named table itself as output."""
    wanted = task.parameters["table"]
    with Table(task.table_uri(wanted["namespace"], wanted["name"])) as table:     # all parties may see this name
        info = table.metadata()
    log.info("read table %s in namespace %s: %s rows", info["name"], info["namespace"], info["count"])
    metric = Metric(
        "reader_namespace", "reader_name", [("count", table.count)],
        {"name": "reader", "metric_type": "data_info", "table_info": info},
    )
    key = next((one for one in task.outputs if one != METRIC), "data")       # a provider's own reader has another
    return Outcome({key: table.uri}, [metric], {"table_info": info})
