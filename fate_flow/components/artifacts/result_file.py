"""Reading the result file of a worker (docs/reference/contracts.md, `result.json`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt, KindOnDisk
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.text.phrases import sanitized

log = logging.getLogger(__name__)

_LONGEST_MESSAGE = 4_000
_WRONG = "result.json describes the outputs wrongly; that party's log has the details"


@dataclass(frozen=True)
class Reported:
    """What a result file says: whether the task succeeded, a failure in one line, and the outputs."""

    succeeded: bool = False
    message: str = ""
    artifacts: tuple[Artifact, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_result(result: Mapping[str, Any], attempt: Attempt, kinds: Mapping[str, KindOnDisk]) -> Reported:
    """Return what the result file says; a wrong one is a failure, because the worker has written it.

    Other parties read the message, so it says nothing of the paths and tables of this party; its log does."""
    status = result.get("status")
    if not isinstance(status, dict):
        return Reported()
    if status.get("code") != 0:
        return Reported(False, sanitized(str(status.get("exceptions") or ""), _LONGEST_MESSAGE))
    try:
        artifacts = tuple(_artifacts(result, attempt, kinds))
    except (BadRequest, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        log.error("%s: result.json is wrong: %s", attempt.task, sanitized(str(error), _LONGEST_MESSAGE))
        return Reported(False, _WRONG)
    summary = result.get("summary")
    return Reported(True, "", artifacts, summary if isinstance(summary, dict) else {})


def _artifacts(result: Mapping[str, Any], attempt: Attempt, kinds: Mapping[str, KindOnDisk]) -> Iterator[Artifact]:
    for section, outputs in result.get("io_meta", {}).get("outputs", {}).items():
        for key, entries in outputs.items():
            for entry in [entries] if isinstance(entries, Mapping) else entries:
                name = entry["type_name"]
                if name not in kinds or kinds[name].section != section:
                    known = ", ".join(one for one, kind in kinds.items() if kind.section == section) or "none"
                    raise ArtifactError(f"{section}.{key}: type_name: {shown(name)} is not one of: {known}")
                yield kinds[name].reported(attempt, key, entry)
