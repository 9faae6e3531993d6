"""All routes of `/v2`: one row for each module, which has a function `blueprint(services)`."""

from __future__ import annotations

from fate_flow.api.http.errors import Api
from fate_flow.api.http.services import Services
from fate_flow.api.v2.envelope import CodeEnvelope
from fate_flow.api.v2.jobs import jobs, requests, tasks
from fate_flow.api.v2.outputs import data as output_data
from fate_flow.api.v2.outputs import metrics, models
from fate_flow.api.v2.party import logs, not_offered, permission, providers, site
from fate_flow.api.v2.tables import data, tables

PATH = "/v2"
MODULES = (
    jobs, requests, tasks,
    site, logs, providers, permission,
    data, tables,
    output_data, metrics, models,
    not_offered,
)


def api(services: Services) -> Api:
    return Api(CodeEnvelope(), tuple(module.blueprint(services) for module in MODULES), PATH)

