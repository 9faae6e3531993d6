"""A host with two seats in a job, which grants and approves what it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fate_flow.core.access.permission import Kind, PermissionRule, Thing
from fate_flow.core.model.job import Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.store.values import Document, TableMeta
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import command, create
from tests.kit.values import HOST, JOB_ID

ARBITER = Party("arbiter", "10000")
A: dict[str, list[str]] = {"a": []}
ROLES = {"guest": ["9999"], "host": ["10000"], "arbiter": ["10000"]}
WORK, DATA = Thing(Kind.COMPONENT, "Work"), Thing(Kind.DATASET, "granted", "demo")


def reading(name: str, at: str = "common", roles: dict[str, list[str]] | None = None) -> Document:
    """A job that reads this table, at all parties or at one role."""
    document = job(roles or ROLES, A)
    table = {"a": {"table": {"namespace": "demo", "name": name}}}
    parameters = {"common": table} if at == "common" else {"role": {at: {"0": table}}}
    return replace(document, runtime_conf={**document.runtime_conf, "component_parameters": parameters})


def strict_host(**server: Any) -> HandServer:
    host = HandServer("10000", **server)
    host.context = replace(host.context, permission=PermissionRule(components=True, datasets=True))
    Harness(host).use_cases.permissions.grant("9999", [WORK, DATA])
    with host.store.transaction() as tx:
        for name in ("granted", "secret"):
            tx.save_table(TableMeta("demo", name, f"standalone:///demo/{name}", 3, {}), 1)
    return host


def taken(host: HandServer, *commands: Command) -> HandServer:
    for one in commands:
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def unbound(host: HandServer) -> HandServer:
    """Nothing of the job is left, and retention has freed its id."""
    with host.store.transaction() as tx:
        assert tx.unbind(JOB_ID)
    return host


def started(host: HandServer, document: Document, **more: Any) -> HandServer:
    """Both seats of the host run this job."""
    seats = (HOST, ARBITER)
    return taken(
        host,
        *(create(seat, document, **more) for seat in seats),
        *(command(K.STATUS, seat, argument="waiting") for seat in seats),
        *(command(K.APPLY, seat, turn=1) for seat in seats),
        *(command(K.START, seat) for seat in seats),
    )


def tables_read(host: HandServer) -> list[Any]:
    return [order.parameters.get("table", {}).get("name") for order in host.engine.launched]


def change(seat: Party, revision: int | None = 1, cores: int = 1, **more: Any) -> Command:
    parameters = {"common": {**job(ROLES).runtime_conf["job_parameters"]["common"], "task_cores": cores}}
    body = {"job_parameters": parameters, "component_parameters": {}, **more}
    return command(K.PARAMETERS, seat, **body, **({} if revision is None else {"revision": revision}))


def joined(**server: Any) -> HandServer:
    host = HandServer("10000", **server)
    seats = (HOST, ARBITER)
    return taken(
        host, *(create(seat, job(ROLES)) for seat in seats),
        *(command(K.STATUS, seat, argument="waiting") for seat in seats),
    )  # fmt: skip
