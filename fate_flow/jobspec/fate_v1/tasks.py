"""Make the tasks from components, parties and parameters; the module of each task checks its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.artifact import DEFAULT_STAGE, STAGES
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import (
    ChecksAllParties,
    DescribesArtifacts,
    ModuleInfo,
    ReadsNamedTable,
    WarnsOfParameters,
)
from fate_flow.core.model.policy import Policy, PolicyAction, may_restart_task
from fate_flow.core.model.program import ProgramSpec, counted_program, problems_of_counts
from fate_flow.core.model.spec import (
    AS_THE_JOB,
    OWN_RESOURCES,
    JobParameters,
    OwnResources,
    Party,
    Port,
    Stored,
    TaskSpec,
)
from fate_flow.jobspec.fate_v1.after_document import after_of
from fate_flow.jobspec.fate_v1.dsl import Component
from fate_flow.jobspec.fate_v1.input_rules import InputRules, inputs_read, stored_read
from fate_flow.jobspec.fate_v1.minimum_document import Minimums, goes_on_without
from fate_flow.jobspec.fate_v1.policy_document import policies_for
from fate_flow.jobspec.fate_v1.ports_document import ports_of
from fate_flow.jobspec.fate_v1.retry_document import rule_for
from fate_flow.jobspec.fate_v1.seats_document import parties_of, read_by_parties
from fate_flow.jobspec.fate_v1.stored_inputs import KEY as STORED_INPUTS
from fate_flow.jobspec.fate_v1.stored_inputs import read_stored
from fate_flow.jobspec.text.document import Node

MAX_PARTY_TASKS = 20_000


_TASK_CONF = "job_runtime_conf.job_parameters.common.task_conf"
_NEEDS_ITS_GUEST_AS_HOST = frozenset({"heterolr", "heterolinr", "heteropoisson"})


@dataclass(frozen=True)
class Tasks:
    """The values that tasks are made from, besides their components."""

    conf: Node
    modules: Mapping[str, ModuleInfo]
    parties: tuple[Party, ...]
    initiator: Party
    parameters: Mapping[Party, JobParameters]
    given: Mapping[Party, Mapping[str, Any]]
    withheld: frozenset[Party] = frozenset()

    def all(self, components: tuple[Component, ...]) -> dict[str, TaskSpec]:
        """Return the tasks in the order of their components."""
        seats = {one.name: self._seats(one) for one in components}
        count = sum(len(parties) for parties in seats.values())
        if count > MAX_PARTY_TASKS:
            self.conf.wrong(f"makes {count} tasks over all parties; {MAX_PARTY_TASKS} is the most")
            return {}
        for one in components:
            self._check_constraint(one)
        tasks = {one.name: self._task(one, seats[one.name]) for one in components}
        self._minimums.check(tasks)
        InputRules(self.modules, tasks, self.withheld).check(components)
        return tasks

    @property
    def _minimums(self) -> Minimums:
        said = self.parameters[self.initiator].extra
        return Minimums(said, self.conf.at("job_parameters").at("common"), self.modules)

    def _seats(self, component: Component) -> tuple[Party, ...]:
        roles = self.modules[component.module].roles
        found = tuple(party for party in self.parties if party.role in roles)
        if not found:
            present = ", ".join(dict.fromkeys(party.role for party in self.parties))
            component.node.at("module").wrong(
                f"{shown(component.module)} runs at {', '.join(sorted(roles))}; the job has only {present}")
        return parties_of(self.parameters[self.initiator], component.name, found, self._task_conf)

    @property
    def _task_conf(self) -> Node:
        return self.conf.at("job_parameters").at("common").at("task_conf")

    def _task(self, component: Component, parties: tuple[Party, ...]) -> TaskSpec:
        given = {party: self.given[party].get(component.name, {}) for party in parties}
        passed = frozenset(party for party in parties if given[party].get("need_run") is False)
        parameters = {party: _own_parameters(given[party]) for party in parties}
        stored = {party: self._stored(component, party, given[party]) for party in parties if party not in passed}
        checked = {
            party: self._check_parameters(component, party, parameters[party])
            for party in parties if party not in passed
        }  # fmt: skip
        known = [party for party in parties if party not in passed | self.withheld]
        self._check_together(component, {party: parameters[party] for party in known})
        retry = rule_for(self.parameters[self.initiator], component.name)
        limit = _task_timeout(self.parameters[self.initiator], component.name)
        limits = {party: _task_timeout(self.parameters[party], component.name) for party in parties}
        module, stage = self.modules[component.module], self._stage(component)
        given_inputs = read_by_parties(
            component.inputs, self.parameters[self.initiator], component.name, parties, self._task_conf
        )
        return TaskSpec(
            name=component.name,
            module=component.module,
            parties=parties,
            inputs=inputs_read(given_inputs, module, parties, stage),
            stage=stage,
            after=after_of(self.parameters[self.initiator], component.name),
            outputs=component.outputs,
            parameters=parameters,
            passed_at=passed,
            timeout_seconds=limit,
            retry=retry,
            policies=policies_for(self.parameters[self.initiator], component.name),
            min_available=self._minimums.of(component.name, component.module, parties),
            goes_on_without=goes_on_without(module),
            programs={party: program for party, program in checked.items() if program is not None},
            ports=self._ports(component, [party for party in parties if party not in passed]),
            stored=stored_read(stored, module, stage),
            reads_by_name=isinstance(module, ReadsNamedTable) and module.reads_by_name,
            stop_seconds=_stop_duration(self.parameters[self.initiator], component.name),
            priority=_of_task(self.parameters[self.initiator], component.name).get("priority", 0),
            party_timeouts={party: own for party, own in limits.items() if own != limit},
            resources={party: own for party, own in self._resources(component, parties).items() if own != AS_THE_JOB},
        )

    def _resources(self, component: Component, parties: tuple[Party, ...]) -> dict[Party, OwnResources]:
        """Return what the task states of its resources at each party."""
        stated = {party: _of_task(self.parameters[party], component.name) for party in parties}
        return {party: OwnResources(**{key: own.get(key) for key in OWN_RESOURCES}) for party, own in stated.items()}

    def _stored(
        self, component: Component, party: Party, given: Mapping[str, Any]
    ) -> Mapping[str, tuple[Stored, ...]]:
        """Return the inputs of a party that no component of the job makes; add their problems."""
        found, problems = read_stored(given.get(STORED_INPUTS))
        for problem in problems:
            self._parameters_of(component, party).wrong(problem)
        return found

    def _stage(self, component: Component) -> str:
        """Return the stage of a task; add a problem if its module does not have it."""
        given = _of_task(self.parameters[self.initiator], component.name).get("stage")
        stage, module = given or DEFAULT_STAGE, self.modules[component.module]
        known = module.stages if isinstance(module, DescribesArtifacts) else frozenset()
        node = self._task_conf.at(component.name).at("stage")
        if known and stage not in known and not (given is None and node.is_given):     # its problem is reported then
            what = "is missing" if given is None else f"{shown(given)} is not a stage of {component.module}"
            node.wrong(f"{what}; {component.module} has {' and '.join(one for one in STAGES if one in known)}")
        return stage

    def _ports(self, component: Component, running: list[Party]) -> tuple[Port, ...]:
        task_conf = self._task_conf
        ports = ports_of(self.parameters[self.initiator], component.name, running, task_conf)
        if ports and not self.modules[component.module].provider.has_replicas:
            task_conf.at(component.name).at("ports").wrong(
                f"{component.module} has no streams: they are for programs (component Command)"
            )
        return ports

    def _check_parameters(
        self, component: Component, party: Party, parameters: Mapping[str, Any]
    ) -> ProgramSpec | None:
        """Check the parameters with the module, and return the program that they name, if they name one.

        Problems name no key, since several blocks are merged. Of a party whose parameters are withheld, only the
        numbers of its workers are known."""
        module = self.modules[component.module]
        if party in self.withheld:
            return self._counted_program(component, party, parameters) if module.provider.has_replicas else None
        problems = module.check(parameters, party.role)
        program = None if problems else module.provider.program(parameters)
        if program is not None:
            problems = list(self._problems_of_program(component, program))
        for problem in problems:
            self._parameters_of(component, party).wrong(problem)
        for warning in module.warnings(parameters) if isinstance(module, WarnsOfParameters) else ():
            self._parameters_of(component).doubtful(warning)      # reported once, even if many parties have it
        return program

    def _counted_program(
        self, component: Component, party: Party, parameters: Mapping[str, Any]
    ) -> ProgramSpec | None:
        problems = problems_of_counts(parameters)
        for problem in problems:
            self._parameters_of(component, party).wrong(problem)
        return None if problems else counted_program(parameters)

    def _check_together(self, component: Component, parameters: Mapping[Party, Mapping[str, Any]]) -> None:
        """Check the parameters of all parties whose parameters are known; the initiator knows all."""
        module = self.modules[component.module]
        if isinstance(module, ChecksAllParties) and not self.conf.findings.problems:
            for problem in module.check_all(parameters):
                self._parameters_of(component).wrong(problem)

    def _parameters_of(self, component: Component, party: Party | None = None) -> Node:
        path = self.conf.findings.paths.of_parameters(component.name, str(party or ""))
        return self.conf.at("component_parameters")._replace(place=path)

    def _path_of(self, name: str, key: str) -> str:
        """Return the path of a key that a component has beside its parameters."""
        return self.conf.findings.paths.of(f"{_TASK_CONF}.{name}.{key}")

    def _problems_of_program(self, component: Component, program: ProgramSpec) -> Iterator[str]:
        """Yield the problems of a program together with other parts of the document."""
        retry = rule_for(self.parameters[self.initiator], component.name)
        if program.fails_on_restart and (retry.retries or retry.max_interruptions):
            yield (
                "fail_on_worker_restart excludes retry; set "
                f'{self._path_of(component.name, "retry")} {{"max_attempts": 1, "max_interruptions": 0}}'
            )
        if program.fails_on_restart:
            yield from self._restarts_by_policy(component.name)
        tables = [one.name for one in program.outputs if one.is_table]
        for one in component.outputs:
            if one.kind == "data" and one.alias not in tables:
                known = ", ".join(tables) or "none"
                yield f"outputs: the DSL has {one.alias} as output, the outputs of kind table are: {known}"

    def _restarts_by_policy(self, name: str) -> Iterator[str]:
        """Yield problems for policies that may restart this component: its own, the job's, and any with restart_job."""
        parameters, excludes = self.parameters[self.initiator], "fail_on_worker_restart excludes"
        jobs, own = policies_for(parameters), policies_for(parameters, name)
        if may_restart_task((own,)):
            yield f"{excludes} restart_task in {self._path_of(name, 'policies')}"
        elif may_restart_task((own, jobs)):
            yield (
                f"{excludes} restart_task in policies of the job; set "
                f'{self._path_of(name, "policies")} [{{"event": "any", "action": "ignore"}}]'
            )
        for place, policies in (("policies of the job", jobs), *self._policies_of_components()):
            if any(one.action is PolicyAction.RESTART_JOB for one in policies):
                yield f"{excludes} restart_job in {place}: it restarts every task"

    def _policies_of_components(self) -> Iterator[tuple[str, tuple[Policy, ...]]]:
        parameters = self.parameters[self.initiator]
        for name in parameters.extra.get("task_conf", {}):
            yield self._path_of(name, "policies"), policies_for(parameters, name)

    def _check_constraint(self, component: Component) -> None:
        """Add a problem if the guest of such an algorithm is also its arbiter, unless it is the host, too (a test)."""
        if component.module.lower() not in _NEEDS_ITS_GUEST_AS_HOST:
            return
        guests, hosts, arbiters = (
            {party.party_id for party in self.parties if party.role == role}
            for role in ("guest", "host", "arbiter")
        )
        for party_id in sorted(guests & arbiters - hosts):
            self.conf.at("role").wrong(
                f"{party_id} is guest and arbiter at once; {component.name} ({component.module}) "
                "needs it to be a host as well, or another arbiter")


def _own_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters for the component itself; the others are for the coordinator."""
    return {key: value for key, value in given.items() if key not in ("need_run", STORED_INPUTS)}


def _task_timeout(parameters: JobParameters, name: str) -> int:
    """Return the timeout of `task_conf` for this task, else that of the job."""
    own = _of_task(parameters, name).get("timeout")
    return parameters.task_timeout_seconds if own is None else int(own)


def _of_task(parameters: JobParameters, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = parameters.extra.get("task_conf", {}).get(name, {})
    return found


def _stop_duration(parameters: JobParameters, name: str) -> float | None:
    """Return the duration of `task_conf` for this task, else that of the job; None if there is neither."""
    own = _of_task(parameters, name).get("stop_duration")
    return parameters.extra.get("stop_duration") if own is None else own
