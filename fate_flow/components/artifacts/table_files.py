"""Tables on disk: one file each, in the folder for tables of this party (docs/reference/contracts.md, "Tables")."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt
from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables.table import Table, drop
from fate_flow.components.tables.table_uri import BadTableUri, format_uri, table_in
from fate_flow.core.model.artifact import INDEX, TABLE, Artifact
from fate_flow.core.model.grammar import check_table_piece, shown

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableFiles:
    """The tables below `data_dir`. Metadata: namespace, name, count, replaced, schema, and `job_id`, which wrote it."""

    data_dir: Path
    section = "data"

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        """Return a new table: the output of a failed attempt is never mistaken for that of another one."""
        task = attempt.task
        of_party = f"{task.task_id}_{task.version}_{task.party.role}_{task.party.party_id}"
        name = f"{of_party}_{key}_{attempt.incarnation[:8]}"
        uri = format_uri(self.data_dir, f"output_{task.job_id}", name)
        return Artifact(TABLE, uri.replace(quote(INDEX), INDEX), key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        """Return the table, which need not be an output of this attempt: a task may hand on another one."""
        meta, uri = entry["metadata"], str(entry["uri"])
        namespace = check_table_piece(meta.get("namespace"), "namespace")
        name = check_table_piece(meta.get("name"), "name")
        try:
            self.check(uri, namespace, name)
        except BadTableUri as error:
            raise ArtifactError(f"uri: {error.message}") from error
        metadata = {
            "namespace": namespace, "name": name, "count": _count(meta.get("count") or 0),
            "replaced": _count(meta.get("replaced") or 0), "schema": dict(meta.get("schema") or {}),
            "job_id": attempt.task.job_id,
        }  # fmt: skip
        return _as_it_is(Artifact(TABLE, uri, metadata, key), attempt.task.task_id)

    def check(self, uri: str, namespace: str, name: str) -> None:
        """Check that the uri names the table of this name, in the folder for tables, with all links resolved.

        Raises BadTableUri if it names no table there; ArtifactError if it names another one."""
        address = table_in(self.data_dir, uri)
        if (address.namespace, address.name) != (namespace, name):
            raise ArtifactError(f"uri: {shown(uri)} is not the table {namespace}.{name}")

    def remove(self, artifact: Artifact) -> None:
        try:
            drop(self.data_dir, artifact.uri)
        except BadTableUri as error:
            meta = artifact.metadata
            log.warning("table %s.%s: its file stays: %s", meta.get("namespace"), meta.get("name"), error)


def _as_it_is(stated: Artifact, task_id: str) -> Artifact:
    """Return the table as it is on disk: after two uploads of one table, the file may be of the other one."""
    try:
        with Table(stated.uri) as table:
            if table.made_by in ("", task_id):
                return stated
            found = {
                "count": table.count, "replaced": table.replaced, "schema": table.schema.as_json(),
                "job_id": table.made_by.partition("_")[0],
            }  # fmt: skip
            return replace(stated, metadata={**stated.metadata, **found})
    except (ComponentError, sqlite3.Error):       # already removed, or not one of our tables
        return stated


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise ArtifactError(f"count: {shown(value)} is not a number of rows")
    return value
