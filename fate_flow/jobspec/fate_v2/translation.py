"""Put each value of a DAG into its place in FATE v1's documents, and add a problem for what is not offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.artifact import DATA, DEFAULT_STAGE, MODEL, STAGES, keys_of
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo
from fate_flow.core.model.spec import OWN_RESOURCES, Party
from fate_flow.jobspec.fate_v1.placing import COMMON, CONF, COPIED, JOB_PARAMETERS, PathsElsewhere, Placing
from fate_flow.jobspec.fate_v1.stored_inputs import KEY as STORED_INPUTS
from fate_flow.jobspec.fate_v2.inheritance import INHERITANCE, Inheritance, read_inheritance
from fate_flow.jobspec.fate_v2.inputs import Channel, Channels, Inputs
from fate_flow.jobspec.fate_v2.parties import FIRST, read_parties, read_some
from fate_flow.jobspec.fate_v2.providers import NamedProvider, find_component, read_provider
from fate_flow.jobspec.text.document import Node

THE_DAG = "dag_schema"
"""The name of the whole document in messages, since it has no path."""
_DAG = ("parties", "stage", "conf", "tasks", "party_tasks")
_JOB_CONF = (
    "priority", "scheduler_party_id", "initiator_party_id", INHERITANCE, "cores", "computing_partitions", "sync_type",
    "auto_retries", "model_id", "model_version", "model_warehouse", "task", "extra",
)  # fmt: skip
_TASK_CONF = ("provider", "timeout", "launcher_name", "engine_run")
_TASK = ("component_ref", "dependent_tasks", "parameters", "inputs", "outputs", "parties", "conf", "stage")
_ALIAS, _TYPE_ALIAS = "output_artifact_key_alias", "output_artifact_type_alias"


class DagPaths(PathsElsewhere):
    """The paths in the DAG of places in FATE v1's documents."""

    def of_parameters(self, task: str, party: str = "") -> str:
        return f"dag.tasks.{shown_key(task)}.parameters" + (f": at {party}" if party else "")


class Translation(Placing):
    def __init__(self, file: Node, defaults: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> None:
        super().__init__(DagPaths(THE_DAG))
        self._file, self._dag, self._modules = file, file.at("dag"), modules
        self._parties: tuple[Party, ...] = ()
        self._found: dict[str, ModuleInfo] = {}
        self._stored: list[tuple[str, Channels]] = []
        self.inherited: Inheritance | None = None
        for key, value in defaults.items():
            self.put(file, *COMMON, key, value=value)
        for node, *place in (
            (self._dag, CONF), (self._dag.at("conf"), CONF, JOB_PARAMETERS), (self._dag.at("conf"), *COMMON),
            (self._dag.at("parties"), CONF, "role"), (self._dag.at("tasks"), "dsl"),
            (self._dag.at("tasks"), "dsl", "components"), (self._dag.at("tasks"), CONF, COPIED),
            (self._dag.at("conf").at("initiator_party_id"), CONF, "initiator"),
        ):  # fmt: skip
            self.came(node, *place)

    def translate(self) -> None:
        """Add a problem for everything of a wrong form, and for what is not offered."""
        if not self._has_form():
            return
        self._parties = read_parties(self._dag.at("parties"))
        for party in self._parties:
            ids = self._documents[CONF].setdefault("role", {}).setdefault(party.role, [])
            ids.append(party.party_id)
        _one_of(self._dag.at("stage"), STAGES)
        self._job_conf(self._dag.at("conf"))
        tasks = self._dag.at("tasks").members()
        self.inherited = read_inheritance(self._dag.at("conf").at(INHERITANCE), tasks)
        for name, task in tasks.items():
            if task.needed() and task.is_object():
                self._task(name, task)
        self._inputs({name: task for name, task in tasks.items() if isinstance(task.value, Mapping)})
        self._party_tasks(tasks)
        self._stored_inputs()

    def _has_form(self) -> bool:
        file = self._file
        if not file.is_object():
            return False
        file.only(("dag", "schema_version", "kind"))
        version, kind = file.at("schema_version"), file.at("kind")
        if version.needed() and not str(version.value).startswith("2."):
            version.wrong(f"{shown(version.value)} is not offered: a DAG of FATE 2, such as 2.2.0, is")
        if kind.is_given and kind.value != "fate":
            kind.wrong(f"{shown(kind.value)} is not offered; only fate is")
        dag = self._dag
        if not dag.needed() or not dag.is_object():
            return False
        dag.only(_DAG)
        return dag.at("parties").needed() and dag.at("tasks").needed() and dag.at("tasks").is_object()

    # ------------------------------------------------------------------ the job

    def _job_conf(self, conf: Node) -> None:
        if conf.is_given and not conf.is_object():
            return
        conf.only(_JOB_CONF)
        for key in ("priority", "computing_partitions", "auto_retries"):
            self.put(conf.at(key), *COMMON, key)
        self._initiator(conf)
        _one_of(conf.at("sync_type"), ("poll", "callback"))
        task = conf.at("task")
        if task.is_given and task.is_object():
            task.only(_TASK_CONF)
            self.put(task.at("timeout"), *COMMON, "task_timeout")
            _refuse_launchers(task)
        self._cores(conf.at("cores"), task.at("engine_run"))
        self._models(conf)

    def _models(self, conf: Node) -> None:
        """Put the name of the models that the job makes, if it names them."""
        given = {"id": conf.at("model_id"), "version": conf.at("model_version")}
        if given["version"].is_given and not given["id"].is_given:
            given["version"].wrong("is given without model_id")
        elif given["id"].is_given:
            for key, node in given.items():
                self.put(node, *COMMON, "model", key)
            self.came(given["id"], *COMMON, "model")
        used = conf.at("model_warehouse")
        if used.is_given and used.is_object():
            used.nothing_but(("model_id", "model_version"))

    def _initiator(self, conf: Node) -> None:
        party_id = conf.at("initiator_party_id")
        if not party_id.needed():
            return
        scheduler = conf.at("scheduler_party_id")
        if scheduler.is_given and str(scheduler.value) != str(party_id.value):
            scheduler.wrong(
                f"{shown(scheduler.value)} is another party than {shown(party_id.value)}, where the job is submitted: "
                "jobs that another party schedules are not offered"
            )
        seats = [one for role in FIRST for one in self._parties if (one.role, one.party_id) == (role, party_id.value)]
        if not seats:
            known = ", ".join(map(str, self._parties))
            party_id.wrong(f"party {shown(party_id.value)} is no party of the job, which are: {known}")
            return
        self._documents[CONF]["initiator"] = {"role": seats[0].role, "party_id": seats[0].party_id}

    def _cores(self, cores: Node, engine: Node) -> None:
        """`cores` are those of the job, `engine_run.cores` those of one task, of which as many run at once as fit."""
        if engine.is_given and engine.is_object():
            engine.nothing_but(("cores",))
        of_task = engine.at("cores")
        if not of_task.is_given:
            self.put(cores, *COMMON, "task_cores")
            return
        self.put(of_task, *COMMON, "task_cores")
        if type(cores.value) is int and type(of_task.value) is int and 0 < of_task.value <= cores.value:
            self.put(cores, *COMMON, "task_parallelism", value=cores.value // of_task.value)

    # ------------------------------------------------------------------ a task

    def _task(self, name: str, task: Node) -> None:
        place, limits = ("dsl", "components", name), (*COMMON, "task_conf", name)
        task.only(_TASK)
        if self._is_inherited(name):
            if found := self._find(task):
                self._found[name] = self._modules[found[0]]
            return
        self.came(task, *place)
        self.came(task, *limits)
        module = self._component(name, task)
        if module is None:
            return
        self._found[name] = module
        self._stage(task, module, *limits)
        self.put(task.at("dependent_tasks"), *limits, "after", value=self._that_run(task.at("dependent_tasks").value))
        conf = task.at("conf")
        if conf.is_given and conf.is_object():
            conf.only(_TASK_CONF)
            self.put(conf.at("timeout"), *limits, "timeout")
            _refuse_launchers(conf)
            self._resources(conf.at("engine_run"), *limits)
        self._seats(task, *limits)
        self._outputs(task.at("outputs"), module, *place, "output")
        parameters = task.at("parameters")
        if parameters.is_given and parameters.is_object():
            _refuse_need_run(parameters)
            self.put(parameters, CONF, COPIED, "common", name, value=dict(parameters.value))

    def _resources(self, engine: Node, *limits: str) -> None:
        """Put the resources of one task: cores as in FATE 2, and with the same names as in a job file the others."""
        if not engine.is_given or not engine.is_object():
            return
        engine.nothing_but(OWN_RESOURCES)
        for key in OWN_RESOURCES:
            self.put(engine.at(key), *limits, key)

    def _is_inherited(self, name: str) -> bool:
        return self.inherited is not None and name in self.inherited.models.tasks

    def _that_run(self, names: Any) -> Any:
        return [one for one in names if not self._is_inherited(one)] if isinstance(names, list) else names

    def _component(self, name: str, task: Node) -> ModuleInfo | None:
        found = self._find(task)
        if found is None:
            return None
        module, provider, named_by = found
        place = ("dsl", "components", name)
        self.put(task.at("component_ref"), *place, "module", value=module)
        if "." in module and isinstance(provider, NamedProvider):
            self.put(named_by, *place, "provider", value=provider.in_dsl)
        return self._modules[module]

    def _find(self, task: Node) -> tuple[str, NamedProvider | None, Node] | None:
        """Return the component of a task, its provider and the node that names this; add a problem if there is none."""
        ref = task.at("component_ref")
        own, of_job = task.at("conf").at("provider"), self._dag.at("conf").at("task").at("provider")
        provider = read_provider(own) if own.is_given else read_provider(of_job)
        if not ref.needed() or ((own.is_given or of_job.is_given) and provider is None):
            return None
        if not isinstance(ref.value, str):
            ref.wrong(f"{shown(ref.value)} is not the name of a component")
            return None
        found, why_not = find_component(self._modules, provider, ref.value)
        if not found:
            ref.wrong(why_not)
            return None
        return found, provider, own if own.is_given else of_job

    def _stage(self, task: Node, module: ModuleInfo, *limits: str) -> None:
        """A task has its own stage, or that of the DAG, or default if its component has no code for that one."""
        known = module.stages if isinstance(module, DescribesArtifacts) else frozenset()
        if not _one_of(task.at("stage"), STAGES):
            return
        of_dag = self._dag.at("stage").value
        is_for_it = of_dag in STAGES and (not known or of_dag in known)
        stage = task.at("stage").value or (of_dag if is_for_it else DEFAULT_STAGE)
        self.put(task.at("stage"), *limits, "stage", value=stage)

    def _seats(self, task: Node, *limits: str) -> None:
        node = task.at("parties")
        if node.is_given and (seats := read_some(node, self._parties)):
            self.put(node, *limits, "parties", value=list(map(str, seats)))

    def _outputs(self, outputs: Node, module: ModuleInfo, *place: str) -> None:
        """Put other names of outputs, which FATE v1 has as a list in the order of the component's keys."""
        if not outputs.is_given or not outputs.is_object():
            return
        outputs.only((DATA, MODEL, "metric"))
        for key, alias in self._aliases(outputs, "metric").items():
            if alias != key:
                outputs.at("metric").at(key).wrong(f"{shown(alias)}: other names of metrics are not offered")
        for section in (DATA, MODEL):
            aliases = self._aliases(outputs, section)
            if not aliases or not isinstance(module, DescribesArtifacts):
                continue
            stage = self._documents[CONF][JOB_PARAMETERS]["common"]["task_conf"][place[2]]["stage"]
            keys = keys_of(module.outputs, section, stage)
            for key in aliases:
                if key not in keys:
                    outputs.at(section).at(key).unknown(key, keys)
            self.put(outputs.at(section), *place, section, value=[aliases.get(key, key) for key in keys])

    @staticmethod
    def _aliases(outputs: Node, section: str) -> dict[str, str]:
        found = {}
        for key, one in outputs.at(section).members().items():
            if isinstance(one.value, list) and len(one.value) == 1:
                one = one.element(0)
            if not one.is_object():
                continue
            one.nothing_but((_ALIAS, _TYPE_ALIAS, "parties"))
            if one.at(_TYPE_ALIAS).value not in (None, section):
                one.at(_TYPE_ALIAS).wrong(f"{shown(one.at(_TYPE_ALIAS).value)} is not offered; only {section} is")
            if one.at("parties").value:
                one.at("parties").wrong("is not offered for outputs")
            if isinstance(one.at(_ALIAS).value, str):
                found[key] = one.at(_ALIAS).value
        return found

    # ------------------------------------------------------------------ inputs

    def _inputs(self, tasks: Mapping[str, Node]) -> None:
        reading = Inputs(self._parties, self._dag.at("conf").at("model_warehouse"))
        for name, task in tasks.items():
            if name not in self._found or self._is_inherited(name):
                continue
            place = ("dsl", "components", name, "input")
            self.came(task.at("inputs"), *place)
            for section in (DATA, MODEL):
                self.came(task.at("inputs").at(section), *place, section)
            for channels in map(self._as_stored, reading.of(task.at("inputs"))):
                if channels.stored:
                    self.came(channels.node, *place, channels.section, channels.key)
                    self._stored.append((name, channels))
                    continue
                values = [one.in_dsl for one in channels.every]
                self.put(channels.node, *place, channels.section, channels.key, value=values)
                readers = [self._readers(name, one) for one in channels.every]
                if any(readers_of != self._seats_of(name) for readers_of in readers):
                    self.put(
                        channels.node, *COMMON, "task_conf", name, "input_parties",
                        f"{channels.section}.{channels.key}", value=[list(map(str, one)) for one in readers],
                    )  # fmt: skip

    def _as_stored(self, channels: Channels) -> Channels:
        return channels if self.inherited is None else self.inherited.as_stored(channels, self._seats_of)

    def _stored_inputs(self) -> None:
        """Put what is there already beside the parameters of each party that reads it."""
        for name, channels in self._stored:
            for party in self._seats_of(name):
                read = [one.value for one in channels.stored if one.parties is None or party in one.parties]
                if read:
                    value = read if len(read) > 1 else read[0]
                    self.put(
                        channels.node, CONF, COPIED, "role", party.role, self._index(party), name, STORED_INPUTS,
                        channels.key, value=value,
                    )  # fmt: skip

    def _index(self, party: Party) -> str:
        """Return the place of a party in its role, as FATE v1 has it."""
        return str([one.party_id for one in self._parties if one.role == party.role].index(party.party_id))

    def _readers(self, name: str, channel: Channel) -> tuple[Party, ...]:
        """Return the parties of a task that read a channel: those that it names, or where its producer runs."""
        there = channel.parties
        if there is None:
            there = self._seats_of(name if channel.stored is not None else channel.producer)
        return tuple(one for one in self._seats_of(name) if one in there)

    def _seats_of(self, name: str) -> tuple[Party, ...]:
        module = self._found.get(name)
        if module is None:
            return self._parties
        node = self._dag.at("tasks").at(name).at("parties")
        given = set(read_parties(Node(node.value, node.path, self._quiet()))) if node.is_given else set(self._parties)
        return tuple(one for one in self._parties if one in given and one.role in module.roles)

    def _quiet(self) -> Any:
        return type(self._file.findings)(strict=False)

    # ------------------------------------------------------------------ values for some parties

    def _party_tasks(self, tasks: Mapping[str, Node]) -> None:
        merged: dict[Party, dict[str, dict[str, Any]]] = {}
        nodes: dict[tuple[Party, str], Node] = {}
        for entry in self._dag.at("party_tasks").members().values():
            if not entry.is_object():
                continue
            entry.only(("parties", "tasks", "conf"))
            if entry.at("conf").value:
                entry.at("conf").wrong("a conf of some parties is not offered; set dag.conf")
            parties = read_some(entry.at("parties"), self._parties) if entry.at("parties").needed() else ()
            for name, task in entry.at("tasks").members().items():
                if name not in tasks:
                    task.unknown(name, tasks)
                    continue
                parameters = self._own_parameters(task)
                for party in () if self._is_inherited(name) else parties:
                    merged.setdefault(party, {}).setdefault(name, {}).update(parameters.value or {})
                    nodes[party, name] = parameters
        for (party, name), node in nodes.items():
            self.put(node, CONF, COPIED, "role", party.role, self._index(party), name, value=merged[party][name])

    @staticmethod
    def _own_parameters(task: Node) -> Node:
        """Return the node of the parameters of a task for some parties; add a problem for anything else."""
        if task.is_given and task.is_object():
            task.only(("parameters", "conf"))
            if task.at("conf").value:
                task.at("conf").wrong("a conf of some parties is not offered; set the conf of the task")
            if task.at("parameters").is_given and task.at("parameters").is_object():
                _refuse_need_run(task.at("parameters"))
                return task.at("parameters")
        return Node(None, task.path, task.findings)


def _one_of(node: Node, known: tuple[str, ...]) -> bool:
    """Return whether the value is one of these or not given; add a problem if it is not."""
    is_known = not node.is_given or node.value in known
    if not is_known:
        node.wrong(f"{shown(node.value)} is not one of {', '.join(known)}")
    return is_known


def _refuse_launchers(conf: Node) -> None:
    launcher = conf.at("launcher_name")
    if launcher.is_given and launcher.value != "default":
        launcher.wrong(f"{shown(launcher.value)} is not offered; only default is")


def _refuse_need_run(parameters: Node) -> None:
    for key, instead in (("need_run", "name the parties of the task in its parties"), (STORED_INPUTS, "set inputs")):
        if parameters.at(key).is_given:
            parameters.at(key).wrong(f"cannot be set here; {instead}")


