"""Only `components/` knows its components and providers by name: all other code asks their descriptions.

Checked are string constants of the package, docstrings excepted: none is the name of a module (`Upload`) or of a
component (`upload`), and none contains the name of a task that is called after one (`upload_0`). Other sentences may
contain names of modules: several are English words, and a sentence decides nothing. No constant is the name of a
provider either; `components/providers/table.py` makes the table of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fate_flow.components.providers.table import CATALOGUE, PROVIDERS

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("no_gc")]

PACKAGE = Path(__file__).parents[3] / "fate_flow"
_MODULES, _NAMES = "|".join(CATALOGUE), "|".join(one.name for one in CATALOGUE.values())
_PROVIDERS = "|".join(PROVIDERS.by_name)
NAME = re.compile(rf"\A({_MODULES}|{_NAMES})\Z|\b({_NAMES})_\d+\b")
PROVIDER = re.compile(rf"\A({_PROVIDERS})\Z")

A_KEY = "a key that FATE's clients, Kubernetes or our documents have; no component is meant"
AN_EXAMPLE = "an example for the author of a document"
A_ROW = "a value in rows of databases that exist"
A_TEXT = "an English word or the name of a type"
A_CLIENT = "`flow test toy` sends the same document to any server, FATE's included; `cli/` does not know the catalogue"

EXCEPTIONS = {
    ("api/http/shapes.py", "Upload"): A_TEXT,
    ("api/v1/jobs/predict_dsl.py", " is not a list of component names, such as 'reader_0, lr_0'"): AN_EXAMPLE,
    ("api/v1/party/permission.py", "command"): A_KEY,
    ("api/v2/tables/local_jobs.py", "upload"): A_KEY,
    ("core/record/sentences.py", "command"): A_KEY,
    ("cli/flow/component.py", "Download"): A_TEXT,
    ("cli/flow/table.py", "upload"): A_ROW,
    ("cli/flow/table.py", "writer"): A_ROW,
    ("cli/flow/toy.py", "SecureAddExample"): A_CLIENT,
    ("cli/flow/toy.py", "secure_add_example_0"): A_CLIENT,
    ("cli/input/options.py", "Command"): A_TEXT,
    ("cli/output/unpacked.py", "download"): A_TEXT,
    ("core/model/program.py", "command"): A_KEY,
    ("engines/kubernetes/manifests.py", "command"): A_KEY,
    ("engines/kubernetes/manifests.py", "fetch"): A_TEXT,
    ("engines/staged/agent.py", "fetch"): A_TEXT,
    ("jobspec/fate_v1/input_rules.py", " needs a table, such as reader_0.data"): AN_EXAMPLE,
    ("services/record/entries.py", "command"): A_KEY,
    ("store/values.py", "upload"): A_ROW,
    ("store/views/views.py", "upload"): A_ROW,
}  # fmt: skip
"""By file and text, why it may stand there."""


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield all string constants but docstrings, also the constant parts of f-strings."""
    docstrings = set()
    for node in ast.walk(tree):         # a statement comes before its value
        if isinstance(node, ast.Expr):
            docstrings.add(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value


def named_in(source: str) -> set[str]:
    return {text for text in texts(ast.parse(source)) if NAME.search(text)}


@cache
def texts_outside() -> frozenset[tuple[str, str]]:
    return frozenset(
        (path.relative_to(PACKAGE).as_posix(), text)
        for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "components" not in path.parents
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
    )  # fmt: skip


def named_outside(name: re.Pattern[str]) -> set[tuple[str, str]]:
    return {(path, text) for path, text in texts_outside() if name.search(text)}


def test_no_component_is_named_outside_the_components() -> None:
    found = named_outside(NAME)
    assert found - EXCEPTIONS.keys() == set(), "give the component's description a trait, or take the name from there"
    assert EXCEPTIONS.keys() - found == set(), "these exceptions are not needed any more"


def test_no_provider_is_named_outside_the_components() -> None:
    assert {text for _, text in named_outside(PROVIDER)} <= {"command"}, "let the provider state a trait"
    found = {path for path, _ in named_outside(PROVIDER)}
    assert found <= {path for (path, text), why in EXCEPTIONS.items() if text == "command" and why is A_KEY}


def test_a_name_is_found_however_it_is_used() -> None:
    source = (
        '"""Upload."""\n"a docstring of a value: Upload"\n'
        'X = {"Upload": "reader_0.raw"}\nY = f"{x} reads fetch_12 here"\n'
        'match m:\n    case "secure_sum":\n        pass\n'
        'Z = "Sec-Fetch-Site", "command.json", "uploads", "Download a file", "secure_add_guest"\n'
    )
    assert named_in(source) == {"Upload", "reader_0.raw", " reads fetch_12 here", "secure_sum"}
