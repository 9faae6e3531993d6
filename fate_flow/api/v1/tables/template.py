"""`/v1/template/download`: example documents for jobs that this server can run, with a little data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.archive import GZIP, Member, tar_response, text_member
from fate_flow.api.http.arguments import read_whole, whole
from fate_flow.api.http.declared import declared
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import silent_json
from fate_flow.components.providers.builtin import INTERSECTION, READER, SECURE_ADD_EXAMPLE
from fate_flow.core.access.client_roles import READ

_DATA = {"guest": "id,x,y\na,1,0\nb,2,1\nc,3,1\n", "host": "id,z\nb,20\nc,30\nd,40\n"}


def blueprint(services: Services) -> Blueprint:
    own = services.settings.party_id
    other = next(iter(sorted(services.settings.routes)), "10000")
    template = Blueprint("template", __name__, url_prefix="/v1/template")

    @template.post("/download")
    @file_follows
    @declared(
        "Download example documents of jobs, and data for them, as a tar.", READ, file=GZIP,
        takes={"min_data": whole("No effect: the data is always small.", default=1)},
    )
    def download() -> Response:
        """Send the examples; `min_data` leaves nothing out, since all data is small."""
        read_whole(silent_json(), "min_data", 1)
        return tar_response("template.tar.gz", _members(int(own), int(other)))

    return template


def _members(guest: int, host: int) -> Iterator[Member]:
    for role, text in _DATA.items():
        yield text_member(f"template/data/{role}.csv", text)
        yield _json(f"upload/upload_{role}_conf", {
            "file": f"template/data/{role}.csv", "head": 1, "partition": 1, "id_delimiter": ",",
            "namespace": "template", "table_name": role,
        })
    for name, (components, given) in _JOBS.items():
        yield _json(f"{name}/{name}_dsl", {"components": components})
        yield _json(f"{name}/{name}_conf", _conf(guest, host, given))


def _json(path: str, content: Mapping[str, Any]) -> Member:
    return text_member(f"template/{path}.json", json.dumps(content, indent=2) + "\n")


def _conf(guest: int, host: int, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": guest},
        "role": {"guest": [guest], "host": [host]},
        "job_parameters": {"common": {"job_type": "train", "task_cores": 1}},
        "component_parameters": given,
    }


_READER, _INTERSECTION = f"{READER.name}_0", f"{INTERSECTION.name}_0"
_TABLES = {role: {"0": {_READER: {"table": {"namespace": "template", "name": role}}}} for role in _DATA}
_JOBS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "toy": ({"toy_0": {"module": SECURE_ADD_EXAMPLE.module}}, {"common": {"toy_0": {"data_num": 1000}}}),
    INTERSECTION.name: (
        {
            _READER: {"module": READER.module, "output": {"data": ["raw"]}},
            _INTERSECTION: {
                "module": INTERSECTION.module, "input": {"data": {"data": [f"{_READER}.raw"]}},
                "output": {"data": ["joined"]},
            },
        },
        {"role": _TABLES},
    ),
}  # fmt: skip
