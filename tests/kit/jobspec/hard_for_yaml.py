"""Parameters of a job that a reader of YAML gets wrong if they are written as a library for JSON writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HARD_FOR_YAML: Mapping[str, Any] = {
    "column": "amount \U0001f600", "rate": 1e-05, "k" * 1500: "1e-05", "on": "no", "n": 2**70, "\U0001f600": ['" : ? '],
}  # fmt: skip
