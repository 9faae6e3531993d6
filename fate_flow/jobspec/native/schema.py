"""The native job file as a JSON Schema: the one declaration that editors are given and that the reader goes by.

`shape.py` walks it, and knows no keyword of JSON Schema that is not used here. What a value means beyond its
shape (does the party exist, is the event known to the rule) is for the readers of the FATE documents that
`reader.py` makes of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.policy import PolicyAction, PolicyEvent
from fate_flow.core.model.program import PARAMETERS as COMMAND_PARAMETERS
from fate_flow.core.model.retry import Backoff, RetryEvent, RetryRule
from fate_flow.core.model.spec import MOST_PRIORITY
from fate_flow.jobspec.fate_v1.reader import MAX_PARTIES
from fate_flow.jobspec.text.document import MAX_WHOLE

VERSION = 1
Schema = Mapping[str, Any]


def schema_text() -> str:
    """The schema as it is published: `docs/job.schema.json`, `/v1/schema/job.json`, `flow job schema`."""
    return json.dumps(JOB, indent=2) + "\n"


def _object(description: str, required: tuple[str, ...] = (), /, **properties: Schema) -> dict[str, Any]:
    """Nothing but these keys."""
    found: dict[str, Any] = {"description": description, "type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return {**found, "additionalProperties": False}


def _by(names: Schema, values: Schema, description: str) -> dict[str, Any]:
    """Keys of the user's own choice, each of this form."""
    return {
        "description": description, "type": "object", "propertyNames": dict(names), "additionalProperties": dict(values)
    }  # fmt: skip


def _list(items: Schema, description: str, **more: Any) -> dict[str, Any]:
    return {"description": description, "type": "array", "items": dict(items), **more}


def _whole(description: str, minimum: int, default: int | None = None, maximum: int = MAX_WHOLE) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": description, "type": "integer", "minimum": minimum, "maximum": maximum
    }  # fmt: skip
    return found if default is None else {**found, "default": default}


def _number(
    description: str, minimum: float = 0, maximum: float = MAX_WHOLE, default: float | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": description, "type": "number", "minimum": minimum, "maximum": maximum
    }  # fmt: skip
    return found if default is None else {**found, "default": default}


def _text(description: str, pattern: str = "", expected: str = "", **more: Any) -> dict[str, Any]:
    """`expected` is what editors and the reader say when the pattern does not fit."""
    found: dict[str, Any] = {"description": description, "type": "string", **more}
    return {**found, "pattern": pattern, "patternErrorMessage": f"is not {expected}"} if pattern else found


_ID = "(0|[1-9][0-9]{0,9})"
_ROLE = f"({'|'.join(ROLES)})"
_NAME = "[A-Za-z0-9_][A-Za-z0-9_-]{0,29}"
_NAMED = "of 1 to 30 letters, digits, _ and -, no - first; FATE's own tables have room for 30"
_PARAMETERS = {
    "type": "object",
    # any component may have a parameter of such a name: what is wrong with a command is for its own reader to say
    "properties": {name: {"description": f"Command: {text}."} for name, text in COMMAND_PARAMETERS.items()},
}
_RULE, _BACKOFF = RetryRule(), Backoff()

_PARTY_IDS = _list(
    {
        "type": ["integer", "string"], "minimum": 0, "maximum": 10**10 - 1, "pattern": f"^{_ID}$",
        "patternErrorMessage": "is not the number of a party",
    },
    "The numbers of the parties in this role.", minItems=1, uniqueItems=True,
)  # fmt: skip
_SOURCES = _list(
    _text("An output of another task.", f"^{_NAME}\\.{_NAME}$", "<task>.<output>"), "What it reads, in order.",
    minItems=1,
)  # fmt: skip
_OUTPUTS = _list(_text("The name of an output.", f"^{_NAME}$", f"a name {_NAMED}"), "Names, in order.",
                 uniqueItems=True)  # fmt: skip
_COUNTS: Mapping[str, Schema] = {role: _whole(f"Of the role {role}.", 0) for role in ROLES}

_RETRY = _object(
    "When a task that ended badly begins again at all its parties. What is left out has its default.",
    on_events=_list(
        {"enum": [event.value for event in RetryEvent]},
        "What is followed by another attempt; all but party_lost when left out. no_capacity and party_lost are for the "
        "job alone: it waits for capacity, and for the return of a party that was lost.",
        minItems=1, uniqueItems=True,
    ),
    max_attempts=_whole("Attempts that may end by an error or a timeout; 1: no retry.", 1, _RULE.max_attempts),
    max_interruptions=_whole("Interruptions, which use up no attempt.", 0, _RULE.max_interruptions),
    duration=_number(
        "Seconds from the first bad end after which no attempt begins; that of the job also of its waiting for "
        "capacity; "
        "0: no limit.", default=0,
    ),
    backoff=_object(
        "How long it is before the next attempt.",
        first=_number("Seconds before the second attempt.", default=_BACKOFF.first),
        factor=_number("How many times longer each time.", 1, 100, _BACKOFF.factor),
        longest=_number("Seconds at most.", default=_BACKOFF.longest),
        jitter=_number("The part of it that is left to chance.", 0, 1, _BACKOFF.jitter),
    ),
)  # fmt: skip

_EVENT = {"enum": [*(event.value for event in PolicyEvent), "*"]}
_POLICIES = _list(
    _object(
        "What is done when something happens: about one of event, events and exit_code.", ("action",),
        event={"description": "What happens; * is any.", **_EVENT},
        events=_list(_EVENT, "One of several.", minItems=1, uniqueItems=True),
        exit_code=_whole("A worker that ended badly ended with it.", 1, maximum=255),
        action={"description": "What is done then.", "enum": [action.value for action in PolicyAction]},
        timeout=_number("Seconds before it is done; not at all when things have moved on by then.", default=0),
    ),
    "Rules for what may happen; the first that fits wins.",
)  # fmt: skip

LIFECYCLE: Mapping[str, Schema] = {
    "retry": {"$ref": "#/$defs/retry"},
    "stop_duration": _number("Seconds from SIGTERM to SIGKILL when it is stopped; left out: as each party has it."),
    "policies": {"$ref": "#/$defs/policies"},
    "min_available": _object("By role: so many parties are enough.", (), **_COUNTS),
    "priority": _whole("Higher goes first.", -MOST_PRIORITY, 0, MOST_PRIORITY),
}
"""The keys of a life cycle, of the job and, where it says otherwise, of a task. They stand under the same names in
`job_parameters.common` and in its `task_conf.<task>`, whose readers know what may be in them: another key is a line
here."""

_RESOURCES = _object(
    "What each task takes at each party; left out: as the initiator's server has it.",
    cores=_whole("Cores of a task.", 1),
    memory=_whole("MB of memory of a task.", 0),
    parallelism=_whole("Tasks that run at the same time; cores and memory are reserved so many times.", 1),
)
_TASK_TIMEOUT = _whole("Seconds that one attempt may run; 0: no limit of its own.", 0)
_WHERE = _text("", f"^{_ROLE}( {_ID})?$", "a role or a party, such as host or host 10001")

_TASK = _object(
    "One component over all its parties.",
    ("component",),
    component=_text("What it runs: Reader, Intersection, ...; `flow provider list` has them all.", minLength=1),
    inputs=_object(
        "What it reads of other tasks.",
        data=_by(_text("", f"^{_NAME}$", f"a name {_NAMED}"), _SOURCES, "Tables, by the key of the component."),
        model=_SOURCES, isometric_model=_SOURCES, cache=_SOURCES,
    ),
    outputs=_object("The names that other tasks know them by.", data=_OUTPUTS, model=_OUTPUTS, cache=_OUTPUTS),
    after=_list(
        _text("The name of another task.", f"^{_NAME}$", f"a name {_NAMED}"),
        "Tasks that succeed before it begins, although it reads nothing of them.", uniqueItems=True,
    ),
    parameters={**_PARAMETERS, "description": "What the component is told at all parties."},
    at=_by(
        _WHERE,
        _object(
            "What differs there.",
            parameters={**_PARAMETERS, "description": "Laid over those for all; objects are merged key by key."},
            run={"description": "Whether it runs there at all.", "type": "boolean", "default": True},
            timeout=_TASK_TIMEOUT,
        ),
        "By role (host) or by party (host 10001), which is the stronger one.",
    ),
    timeout=_TASK_TIMEOUT,
    **LIFECYCLE,
)  # fmt: skip

JOB: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fate_flow job",
    **_object(
        "A job over several parties: flow job submit -f job.yaml",
        ("version", "initiator", "parties", "tasks"),
        version={"description": "Of this format.", "enum": [VERSION]},
        name=_text("What people call it.", maxLength=500),
        description=_text("What it is for.", maxLength=4000),
        initiator=_text("The party that it is submitted at and that decides for it.", f"^{_ROLE} {_ID}$",
                        "a party of the job, such as guest 9999"),
        parties=_object(
            f"Who takes part, by role; {MAX_PARTIES} in all are the most.", (), **dict.fromkeys(ROLES, _PARTY_IDS)
        ),
        resources={"$ref": "#/$defs/resources"},
        timeout=_whole("Seconds from the submit until it is stopped; left out: as the initiator's server has it.", 1),
        task_timeout=_TASK_TIMEOUT,
        ttl=_whole("Seconds after its end when what it left goes at every party; left out: as each party has it.", 60),
        max_failed_workers=_whole("Workers of all its tasks that may fail before it does; left out: any number.", 0),
        at=_by(
            _WHERE,
            _object("What differs there.", resources={"$ref": "#/$defs/resources"}, task_timeout=_TASK_TIMEOUT),
            "By role (host) or by party (host 10001), which is the stronger one.",
        ),
        tasks={
            **_by(_text("", f"^{_NAME}$", f"a name {_NAMED}"), {"$ref": "#/$defs/task"}, "By name, in any order."),
            "minProperties": 1,
        },
        **LIFECYCLE,
    ),
    "$defs": {"task": _TASK, "retry": _RETRY, "policies": _POLICIES, "resources": _RESOURCES},
}  # fmt: skip
