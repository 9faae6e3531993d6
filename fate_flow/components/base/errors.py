"""The errors of components, whose messages are sent to other parties."""

from __future__ import annotations

from fate_flow.core.model.errors import FlowError

TO_REPLACE = (
    'it is replaced with "drop": 1 in the conf of flow data writer, or destroy among the parameters of a Writer'
)
"""How to make a Writer replace a table; FATE's own command has no --drop."""


class ComponentError(FlowError):
    """The component failed.

    Its message becomes `exceptions` of the result file and so crosses to the initiator: it may hold what the
    job's document says and what a party agreed to tell (counts, row numbers), never an id or a value of a row, or the
    name of another table. Only components that run at their own party alone (`Upload`, `Download`, `Writer`, `Fetch`)
    may name tables and columns.
    """


class BadConfig(ComponentError):
    """The task configuration is wrong."""


class ExchangeError(ComponentError):
    """The parties of the task cannot talk to each other."""


def shown(value: object, limit: int = 60) -> str:
    """Return the value as one short line without control characters, for error messages."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
