"""Each document of a simulation is parsed once: every process of every party reads the same ones again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobSpec
from fate_flow.jobspec.formats import parse


@contextmanager
def parsed_once() -> Iterator[None]:
    """While this lasts; what is wrong with a document is still found each time."""
    known: dict[str, JobSpec] = {}

    def remembered(document: JobDocument, **others: Any) -> JobSpec:
        disclosure = None if document.disclosure is None else asdict(document.disclosure)
        key = json.dumps([document.format, document.body, document.defaults, disclosure])
        if key not in known:
            known[key] = parse(document, **others)
        return known[key]

    with patch("fate_flow.services.context.documents.parse", remembered):
        yield
