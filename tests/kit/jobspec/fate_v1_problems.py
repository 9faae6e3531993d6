"""What the v1 adapter says of a document that is wrong."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import BadDocument
from tests.kit.jobspec.fate_v1_documents import read

COMMON = "job_runtime_conf.job_parameters.common"
READER = {"module": "Reader", "output": {"data": ["raw"], "model": ["m"], "cache": ["c"]}}


def message_of(dsl=None, conf=None, *, strict=False):
    with pytest.raises(BadDocument) as caught:
        read(dsl, conf, strict=strict)
    return caught.value.message
