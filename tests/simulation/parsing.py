"""Each document of a simulation is parsed once: every process of every party reads the same ones again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fate_flow.core.model.spec import JobSpec
from fate_flow.jobspec.fate_v1.reader import parse


@contextmanager
def parsed_once() -> Iterator[None]:
    """While this lasts; what is wrong with a document is still found each time."""
    known: dict[str, JobSpec] = {}

    def remembered(dsl: Mapping[str, Any], conf: Mapping[str, Any], **others: Any) -> JobSpec:
        key = json.dumps([dsl, conf])
        if key not in known:
            known[key] = parse(dsl, conf, **others)
        return known[key]

    with patch("fate_flow.services.context.documents.parse", remembered):
        yield
