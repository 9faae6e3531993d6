"""Parses FATE's two documents."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.document import fate_v1_document
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec import formats


def parse(
    dsl: object, runtime_conf: object, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters,
    strict: bool = False,
) -> JobSpec:  # fmt: skip
    """The job of two documents; raises BadDocument."""
    return formats.parse(fate_v1_document(dsl, runtime_conf), modules=modules, defaults=defaults, strict=strict)


def problems(
    dsl: object, runtime_conf: object, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters,
    strict: bool = False,
) -> list[str]:  # fmt: skip
    """All that is wrong with two documents."""
    document = fate_v1_document(dsl, runtime_conf)
    return formats.parse_or_problems(document, modules=modules, defaults=defaults, strict=strict)[1]
