"""The section `engines`, and FATE's section for the size of the local engine."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.server.engines.kinds import BUILDERS
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.reader import KINDS
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings


def with_text(folder: Path, text: str) -> Settings:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    return load_settings(path)


def test_each_kind_that_can_be_configured_can_be_built() -> None:
    assert KINDS.keys() == BUILDERS.keys()
    for module, function in BUILDERS.values():
        assert callable(getattr(import_module(module), function))


def test_a_server_imports_what_builds_its_engines_and_no_others() -> None:
    """Before the fork, as all its processes need it."""
    script = (
        "import sys; from types import SimpleNamespace as Namespace; import fate_flow.server.supervisor; "
        "from fate_flow.server.engines.kinds import BUILDERS, import_engines; "
        "import_engines(Namespace(engines={name: Namespace(kind=name) for name in ('local', 'ray')})); "
        "print(*(kind for kind, (module, _) in BUILDERS.items() if module in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["local", "slurm", "ray"], "Ray's is made of Slurm's"


@pytest.mark.parametrize("text", ["", "engines: {}", "engines: {local: {}}", "fate_on_standalone: {}"])
def test_a_party_that_says_nothing_has_the_local_engine(tmp_path: Path, text: str) -> None:
    assert with_text(tmp_path, text).engines == {LOCAL: EngineSettings("engines.local", EngineSize(1, 20))}


def test_engines_have_names_of_their_own(tmp_path: Path) -> None:
    found = with_text(tmp_path, "engines: {big: {kind: local, cores: 64, memory: 512, max_cores_percent_per_job: 0.5}}")
    assert found.engines == {
        "big": EngineSettings("engines.big", EngineSize(1, 64, 512, 0.5), {
            "kind": "local", "cores": 64, "memory": 512, "max_cores_percent_per_job": 0.5,
        }),
        LOCAL: EngineSettings("engines.local", EngineSize(1, 20)),
    }  # fmt: skip


def test_this_machine_has_the_labels_that_the_configuration_names(tmp_path: Path) -> None:
    assert list(with_text(tmp_path, "engines: {local: {labels: [big, ssd]}}").engines[LOCAL].labels) == ["big", "ssd"]


def test_an_engine_may_be_for_some_parties(tmp_path: Path) -> None:
    limited = 'big: {kind: local, parties: ["10000"]}, own: {kind: local, parties: []}'
    found = with_text(tmp_path, f"engines: {{local: {{}}, {limited}}}")
    assert found.queues.engine_parties == {"big": frozenset({"10000"}), "own": frozenset()}
    used = [(found.queues.may_use(name, one)) for name in found.engines for one in ("10000", "10001", "9999")]
    assert used == [True, True, True, True, False, True, False, False, True], "own jobs may use all of them"


@pytest.mark.parametrize(("text", "names"), [
    ("{big: {kind: local}, local: {}}", ["big", "local"]),
    ("{local: {}, big: {kind: local}}", ["local", "big"]),
    ("{big: {kind: local}}", ["big", "local"]),
    ("{local: {}, big: {kind: local, default: true}}", ["big", "local"]),
    ("{big: {kind: local, default: false}, local: {default: true}}", ["local", "big"]),
])  # fmt: skip
def test_the_first_one_is_the_default_unless_another_one_says_so(tmp_path: Path, text: str, names: list[str]) -> None:
    assert list(with_text(tmp_path, f"engines: {text}").engines) == names


def test_older_configurations_give_the_size_of_the_local_engine_as_fate_does(tmp_path: Path) -> None:
    standalone = "fate_on_standalone: {standalone: {cores_per_node: 8, nodes: 2, memory_per_node: 4}}"
    found = with_text(tmp_path, standalone).engines[LOCAL]
    assert (found.section, found.size) == ("fate_on_standalone", EngineSize(2, 16, 8))
    both = with_text(tmp_path, f"{standalone}\nengines: {{big: {{kind: local, cores: 1}}}}").engines
    assert {name: one.size.cores for name, one in both.items()} == {"big": 1, LOCAL: 16}


@pytest.mark.parametrize(("text", "problem"), [
    ("engines: [local]", "engines: is a list and not a mapping of keys"),
    ("engines: {local: 4}", "engines.local: is a single value and not a mapping of keys"),
    ("engines: {Big: {kind: local}}", "engines.Big: is not a name: a small letter, then up to 29 small letters"),
    ("engines: {7: {kind: local}}", "engines.7: is not a name"),
    ("engines: {big: {cores: 4}}", "engines.big.kind: is missing; it is "),
    ("engines: {big: {kind: lsf}}", "engines.big.kind: 'lsf' is no kind of engine; known here: "),
    ("engines: {local: {kind: lsf}}", "engines.local.kind: 'lsf' is no kind of engine; known here: "),
    ("engines: {local: {core: 4}}", "engines.local.core: no such key; did you mean cores; known here: cores, default"),
    ("engines: {local: {labels: big}}", "engines.local.labels: 'big' is not a list of labels that this machine has"),
    ("engines: {local: {labels: [a b]}}", "engines.local.labels: 'a b' is not a label: 1 to 30 letters"),
    ("engines: {local: {parties: 10000}}", "engines.local.parties: 10000 is not a list of party ids"),
    ("engines: {local: {parties: [me]}}", "engines.local.parties: 'me' is not a party id"),
    ("engines: {local: {cores: -1}}", "engines.local.cores: -1 is not a whole number from 0 to"),
    ("engines: {local: {default: yes please}}", "engines.local.default: 'yes please' is neither true nor false"),
    ("engines: {local: {default: true}, big: {kind: local, default: true}}",
     "engines.local.default and engines.big.default: are true, but one engine is the default"),
    ("engines: {local: {cores: 4}}\nfate_on_standalone: {standalone: {cores_per_node: 4}}",
     "engines.local: is given, and fate_on_standalone as well: both say how much the engine local has; remove "
     "fate_on_standalone (in a file that is laid over another one: fate_on_standalone: null)"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(problem)):
        with_text(tmp_path, text)
