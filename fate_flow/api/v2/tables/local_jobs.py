"""Jobs of the local party that clients of FATE Flow 2 start by asking for a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from flask import Response

from fate_flow.api.http.arguments import read_table_piece, read_whole
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.submission import SubmitFailed, hand_over, parse_job
from fate_flow.api.v1.tables.local_job import local_job
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import CreateFailed
from fate_flow.components.providers.builtin import UPLOAD
from fate_flow.components.providers.description import ComponentInfo

UNNAMED = "upload"
"""The namespace of a table that its client does not name, as in FATE Flow 2."""
_MOST_PARTITIONS = 10_000


class LocalJobs:
    """Starts them, and answers with the id of the job and the name of its table."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def upload(self, sent: Mapping[str, Any], path: Path, conf: Mapping[str, Any], **more: bool) -> Response:
        """Start the upload of this file into the table that the request names; otherwise its name is a new one.

        An existing table of this name is replaced, as in FATE Flow 2. Raise BadRequest; CreateFailed."""
        namespace, name = UNNAMED, str(uuid4())
        if sent.get("namespace") and sent.get("name"):
            namespace, name = read_table_piece(sent, "namespace"), read_table_piece(sent, "name")
        meta, named = conf["meta"], {"namespace": namespace, "name": name}
        return self.start(UPLOAD, named, {
            **named, "file": str(path), "head": conf["head"], "extend_sid": conf.get("extend_sid", False),
            "partition": read_whole(conf, "partitions", 1, 1, _MOST_PARTITIONS),
            "id_delimiter": meta.get("delimiter") or ",", "destroy": True,
            "duplicate_ids": self._services.settings.duplicate_ids, **({"meta": meta} if meta else {}), **more,
        })  # fmt: skip

    def start(
        self, component: ComponentInfo, shown: Mapping[str, Any], parameters: Mapping[str, Any]
    ) -> Response:
        """Start the job of this component, and answer with its id and what is `shown`. Raise CreateFailed."""
        services = self._services
        try:
            submitted = hand_over(services, parse_job(local_job(component, parameters), services.context))
        except SubmitFailed as error:
            raise CreateFailed(error.message) from error
        return ok(dict(shown), job_id=submitted.job_id)
