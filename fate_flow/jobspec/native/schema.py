"""The JSON Schema of the native job file: the single declaration for editors and for the reader.

`jobspec/text/shape.py` checks a file against it, and has a text for each keyword of JSON Schema that is used here.
`reader.py` translates the file into FATE's documents. Their readers check what a shape cannot express, such as whether
a party exists or an event is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fate_flow.core.model.artifact import STAGES
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.policy import PolicyAction, PolicyEvent
from fate_flow.core.model.program import PARAMETERS as COMMAND_PARAMETERS
from fate_flow.core.model.retry import Backoff, RetryEvent, RetryRule
from fate_flow.core.model.spec import MOST_PRIORITY
from fate_flow.core.quotas.queues import QUEUE_IS, QUEUE_PATTERN
from fate_flow.jobspec.fate_v1.reader import MAX_PARTIES
from fate_flow.jobspec.fate_v1.seats_document import PARTIES
from fate_flow.jobspec.native.sources import FROM
from fate_flow.jobspec.native.unchosen_models import CHOICES
from fate_flow.jobspec.text.document import MAX_WHOLE
from fate_flow.jobspec.text.json_schema import Schema, a_list, a_number, a_text, a_whole, an_object, by_pattern

VERSION = 1
LONGEST_NAME = 500               # characters, as in the body of `create`
LONGEST_DESCRIPTION = 4000


def schema_text() -> str:
    """Return the published text: `docs/job.schema.json`, `/v1/schema/job.json`, `flow job schema`."""
    return json.dumps(JOB, indent=2) + "\n"


_ID = "(0|[1-9][0-9]{0,9})"
_ROLE = f"({'|'.join(ROLES)})"
_NAME = "[A-Za-z0-9_][A-Za-z0-9_-]{0,29}"
_NAMED = "of 1 to 30 letters, digits, _ and -, no - first; FATE's own tables have room for 30"
_PARAMETERS = {
    "type": "object",
    # any component may have a parameter of such a name, so the reader of commands checks the values
    "properties": {name: {"description": f"Command: {text}."} for name, text in COMMAND_PARAMETERS.items()},
}
_RULE, _BACKOFF = RetryRule(), Backoff()

_MODEL_ID = a_text(
    "The id of a model: that of the job that has made it, unless this job names another one.",
    "^[A-Za-z0-9_][A-Za-z0-9_.#-]{0,99}$",
    "the id of a model (1 to 100 letters, digits, _ . # and -, a letter, digit or _ first)",
)
_MODEL_VERSION = a_whole("Its version: 0 is that of the first run, each rerun makes the next one.", 0)

_PARTY_IDS = a_list(
    {
        "type": ["integer", "string"], "minimum": 0, "maximum": 10**10 - 1, "pattern": f"^{_ID}$",
        "patternErrorMessage": "is not the number of a party",
    },
    "The ids of the parties in this role.", minItems=1, uniqueItems=True,
)  # fmt: skip
_PLACES = a_list(
    a_text("A role or a party of the task.", f"^{_ROLE}( {_ID})?$", "a role or a party, such as host or host 10001"),
    "Roles and parties.", minItems=1, uniqueItems=True,
)  # fmt: skip
_SOURCE = a_text("An output of another task.", f"^{_NAME}\\.{_NAME}$", "<task>.<output>")
_SOURCES = a_list(_SOURCE, "Outputs that it reads, in order.", minItems=1)
_STORED = an_object(
    "A model that a task of an earlier job has made, in the store of each party.",
    ("model",),
    model=an_object(
        "Its id and version, or a deployment, and the output of the task that has made it.", ("task", "output"),
        id=_MODEL_ID,
        version={
            "description": "Its version, from 0; latest: the newest one; deployed: the one that was deployed last. The "
            "server that takes the job chooses among its own.",
            "type": ["integer", "string"], "minimum": 0, "maximum": MAX_WHOLE, "pattern": f"^({'|'.join(CHOICES)})$",
            "patternErrorMessage": f"is not a whole number, {' or '.join(CHOICES)}",
        },
        deployment={
            "description": "A deployed model, instead of id and version: the model_version that flow model deploy "
            "returns.", "type": ["integer", "string"], "minimum": 0, "minLength": 1,
        },
        task=a_text("The task that has made it.", f"^{_NAME}$", f"a name {_NAMED}"),
        output=a_text("The output of that task.", f"^{_NAME}$", f"a name {_NAMED}"),
    ),
)  # fmt: skip
_FOR_SOME: Mapping[str, Schema] = {
    FROM: _SOURCE, PARTIES: {**_PLACES, "description": "The roles and parties that read it; all by default."},
}
"""A source that some parties of the task read; its reader checks what goes together."""
_NAMED_TABLE = an_object(
    "A table by its name.", ("namespace", "name"), namespace=a_text("Its namespace.", minLength=1),
    name=a_text("Its name.", minLength=1),
)  # fmt: skip
_NAMED_OUTPUT = an_object(
    "What a task of another job has made at the party.", ("job_id", "task", "output"),
    job_id=a_text("The job.", minLength=1), task=a_text("The task.", minLength=1),
    output=a_text("The output of the task.", minLength=1),
)  # fmt: skip
_THERE: Schema = {
    "properties": {"table": {"$ref": "#/$defs/table"}, "output": {"$ref": "#/$defs/output"}},
    "additionalProperties": False, "minProperties": 1,
}
"""What is there already: exactly one of these, which the reader of FATE's documents checks."""
_DATA_THERE = {
    **_THERE, "items": {"type": "object", **_THERE}, "minItems": 1, "type": ["array", "object"],
    "description": "A table of the party, or an output of another job there; or several.",
}  # fmt: skip
_DATA_READ: Schema = {**_THERE, "properties": {**_THERE["properties"], **_FOR_SOME}}
_DATA = {
    **_DATA_THERE, **_SOURCE, **_DATA_READ, "type": ["array", "string", "object"],
    "items": {**_SOURCE, **_DATA_READ, "type": ["string", "object"], "description": "One of several."},
    "description": "An output of another task, a table of the party, an output of another job there; or several.",
}  # fmt: skip
_ANYTHING: Schema = {**_THERE, "properties": {**_STORED["properties"], **_DATA_READ["properties"]}}
_ONE_OR_MORE = {
    **_DATA, **_ANYTHING, "items": {**_DATA["items"], **_ANYTHING},
    "description": "Outputs of other tasks, one or several; what is there already is an object.",
}  # fmt: skip
_MODEL_OF_ALL = {
    **_STORED, **_SOURCE, "type": ["string", "object"], "description": "A model of a task, or a stored one.",
}  # fmt: skip
_MODEL = {
    **_MODEL_OF_ALL, "properties": {**_STORED["properties"], **_FOR_SOME}, "required": [], "minProperties": 1,
}  # fmt: skip
_MODELS = {
    **_MODEL, **a_list(_MODEL, "", minItems=1), "type": ["array", "string", "object"],
    "description": "Outputs of other tasks, one or several; a stored model is an object.",
}  # fmt: skip
_SECTION = {
    "items": _SOURCE, "minItems": 1, **by_pattern(f"^{_NAME}$", f"a name {_NAMED}", _DATA, ""),
    "type": ["object", "array", "string"],
}  # fmt: skip
_MODEL_SECTION = {
    **_SECTION, "items": _MODEL_OF_ALL, **by_pattern(f"^{_NAME}$", f"a name {_NAMED}", _MODELS, ""),
    "type": ["object", "array", "string"],
}  # fmt: skip
_OUTPUTS = a_list(a_text("The name of an output.", f"^{_NAME}$", f"a name {_NAMED}"), "Names, in order.",
                 uniqueItems=True)  # fmt: skip
_COUNTS: Mapping[str, Schema] = {role: a_whole(f"Minimum number of parties in the role {role}.", 0) for role in ROLES}

_RETRY = an_object(
    "When a failed task is started again at all its parties. A missing key has its default.",
    on_events=a_list(
        {"enum": [event.value for event in RetryEvent]},
        "Events after which the task is retried; by default all but party_lost. no_capacity and party_lost are only "
        "for the job: it then waits for capacity, or for the return of a lost party.",
        minItems=1, uniqueItems=True,
    ),
    max_attempts=a_whole(
        "Attempts that may end by an error, a timeout or a lack of memory; 1: no retry.", 1, _RULE.max_attempts
    ),
    max_interruptions=a_whole(
        "Maximum number of interruptions, which do not count as attempts.", 0, _RULE.max_interruptions
    ),
    duration=a_number(
        "Seconds after the first failure in which an attempt may begin; for the job, also seconds that it waits for "
        "capacity; 0: no limit.", default=0,
    ),
    backoff=an_object(
        "The delay before the next attempt.",
        first=a_number("Seconds before the second attempt.", default=_BACKOFF.first),
        factor=a_number("Factor between a delay and the next one.", 1, 100, _BACKOFF.factor),
        longest=a_number("The longest delay in seconds.", default=_BACKOFF.longest),
        jitter=a_number("The random share of the delay.", 0, 1, _BACKOFF.jitter),
    ),
)  # fmt: skip

_EVENT = {"enum": [*(event.value for event in PolicyEvent), "*"]}
_POLICIES = a_list(
    an_object(
        "An action for an event. The event is given by exactly one of event, events and exit_code.", ("action",),
        event={"description": "The event; * means any event.", **_EVENT},
        events=a_list(_EVENT, "Several events, of which one suffices.", minItems=1, uniqueItems=True),
        exit_code=a_whole("The exit code of a failed worker.", 1, maximum=255),
        action={"description": "The action.", "enum": [action.value for action in PolicyAction]},
        timeout=a_number("Seconds before the action; it is dropped if it no longer applies then.", default=0),
    ),
    "Rules for events; the first rule that matches applies.",
)  # fmt: skip

LIFECYCLE: Mapping[str, Schema] = {
    "retry": {"$ref": "#/$defs/retry"},
    "stop_duration": a_number("Seconds between SIGTERM and SIGKILL at a stop; by default, each party's own setting."),
    "policies": {"$ref": "#/$defs/policies"},
    "min_available": an_object("For each role, the number of parties that is enough.", (), **_COUNTS),
    "priority": a_whole("A higher priority goes first.", -MOST_PRIORITY, 0, MOST_PRIORITY),
}
"""The life cycle keys of a job, which a task may override. They have the same names in `job_parameters.common` and in
its `task_conf.<task>`, whose readers check their values: a new key is one line here."""

_OF_ONE_TASK: Mapping[str, Schema] = {
    "cores": a_whole("Cores of a task.", 1),
    "memory": a_whole("Memory of a task in MB.", 0),
    "gpus": a_whole("GPUs of a task.", 0),
    "queue": a_text(
        "A queue, which each party maps to one of its engines; by default, as each party decides.",
        f"^({QUEUE_PATTERN})?$", f"a queue ({QUEUE_IS})",
    ),
    "labels": a_list(
        a_text("A label.", f"^{QUEUE_PATTERN}$", f"a label ({QUEUE_IS})"),
        "Words for the nodes that a worker needs, which each party maps to features of its own nodes.",
        uniqueItems=True,
    ),
}
"""The resources of each task of a job, which a task may override."""

_RESOURCES = an_object(
    "Resources of each task at each party; by default, those in the configuration of the initiator's server.",
    **_OF_ONE_TASK,
    longest_pending=a_number(
        "Seconds that a worker may wait for a place in the cluster of a party, which may let it wait for less; 0: as "
        "long as the party lets it.", default=0,
    ),
    parallelism=a_whole("Number of tasks that run at the same time; all of this is reserved for each of them.", 1),
    partitions=a_whole("Parts of each data frame that is made of a table; by default the cores of a task.", 1),
)
_TASK_RESOURCES = an_object(
    "Resources of this task; by default, those of the job. With another queue, or with GPUs or labels that the engine "
    "of its job lacks, it runs on another engine of the party.", **_OF_ONE_TASK,
)  # fmt: skip
_TASK_TIMEOUT = a_whole("Maximum seconds of one attempt; 0: no limit.", 0)
_WHERE = f"^{_ROLE}( {_ID})?$", "a role or a party, such as host or host 10001"

_TASK = an_object(
    "One component at all its parties.",
    ("component",),
    component=a_text("The component: Reader, Intersection, ...; `flow provider list` lists all.", minLength=1),
    inputs={
        **an_object(
            "Outputs of other tasks that it reads, by the component's input keys; or below these sections, as in FATE.",
            data={**_SECTION, "description": "Data, by the component's input key."},
            model={**_MODEL_SECTION, "description": "Models, by the component's input key, or a list."},
            isometric_model=_SOURCES, cache=_SOURCES,
        ),
        "additionalProperties": _ONE_OR_MORE,
    },
    outputs=an_object("The names of its outputs, for other tasks.", data=_OUTPUTS, model=_OUTPUTS, cache=_OUTPUTS),
    stage={"description": "What it does with its component; by default the job's, else default.", "enum": list(STAGES)},
    after=a_list(
        a_text("The name of another task.", f"^{_NAME}$", f"a name {_NAMED}"),
        "Tasks that must succeed before it begins, although it reads none of their outputs.", uniqueItems=True,
    ),
    parties={**_PLACES, "description": "Where it runs; by default all parties with a role of the component."},
    ports=by_pattern(
        "^[a-z][a-z0-9]{0,19}$", "a name of 1 to 20 lower case letters and digits, a letter first",
        an_object(
            "One worker of each party in listen listens; workers of the parties in connect reach it.",
            ("listen", "connect"), listen=_PLACES, connect=_PLACES,
        ),
        "Streams between its workers, by name.",
    ),
    parameters={**_PARAMETERS, "description": "The parameters of the component at all parties."},
    at=by_pattern(
        *_WHERE,
        an_object(
            "Values that differ there.",
            parameters={**_PARAMETERS, "description": "Override those for all; objects are merged key by key."},
            inputs=by_pattern(
                f"^{_NAME}$", f"a name {_NAMED}", _DATA_THERE,
                "Data that is there already, by the component's input keys.",
            ),
            run={"description": "Whether the task runs there.", "type": "boolean", "default": True},
            timeout=_TASK_TIMEOUT,
            resources={"$ref": "#/$defs/task_resources"},
        ),
        "By role (host) or by party (host 10001); a party takes precedence over its role.",
    ),
    timeout=_TASK_TIMEOUT,
    resources={"$ref": "#/$defs/task_resources"},
    **LIFECYCLE,
)  # fmt: skip

JOB: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fate_flow job",
    **an_object(
        "A job over several parties: flow job submit -f job.yaml",
        ("version", "initiator", "parties", "tasks"),
        version={"description": "The version of this format.", "enum": [VERSION]},
        name=a_text("The name of the job, for people.", maxLength=LONGEST_NAME),
        description=a_text("The purpose of the job.", maxLength=LONGEST_DESCRIPTION),
        initiator=a_text("The party whose server receives the submit and coordinates the job.", f"^{_ROLE} {_ID}$",
                        "a party of the job, such as guest 9999"),
        parties=an_object(
            f"The parties by role; {MAX_PARTIES} in all are the most.", (), **dict.fromkeys(ROLES, _PARTY_IDS)
        ),
        resources={"$ref": "#/$defs/resources"},
        timeout=a_whole("Seconds from the submit until the job is stopped; by default, the initiator's setting.", 1),
        task_timeout=_TASK_TIMEOUT,
        stage={"description": "The stage of tasks that name none, where the component has it.", "enum": [*STAGES[1:]]},
        ttl=a_whole(
            "Seconds from the end until every party removes the job; by default, each party's own setting.", 60
        ),
        model=an_object(
            "The id and the version of the models that its tasks make; by default the id of the job, and 0.", ("id",),
            id=_MODEL_ID, version=_MODEL_VERSION,
        ),
        max_failed_workers=a_whole("Number of workers that may fail before the job does; no limit by default.", 0),
        at=by_pattern(
            *_WHERE,
            an_object("Values that differ there.", resources={"$ref": "#/$defs/resources"}, task_timeout=_TASK_TIMEOUT),
            "By role (host) or by party (host 10001); a party takes precedence over its role.",
        ),
        tasks={
            **by_pattern(f"^{_NAME}$", f"a name {_NAMED}", {"$ref": "#/$defs/task"}, "By name, in any order."),
            "minProperties": 1,
        },
        **LIFECYCLE,
    ),
    "$defs": {
        "task": _TASK, "retry": _RETRY, "policies": _POLICIES, "resources": _RESOURCES,
        "task_resources": _TASK_RESOURCES, "table": _NAMED_TABLE, "output": _NAMED_OUTPUT,
    },
}  # fmt: skip
