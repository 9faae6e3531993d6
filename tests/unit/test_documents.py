"""The documents say what is there: diagrams, commands, configuration keys, links."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fate_flow.cli.flow.main import flow
from fate_flow.cli.server.main import fate_flow
from fate_flow.core.diagram import all_diagrams
from fate_flow.core.model.errors import BadSettings
from fate_flow.jobspec.fate_v1.dsl import MAX_COMPONENTS
from fate_flow.jobspec.fate_v1.reader import MAX_PARTIES
from fate_flow.jobspec.fate_v1.tasks import MAX_PARTY_TASKS
from fate_flow.jobspec.native.schema import JOB
from fate_flow.jobspec.text.document import MAX_DEPTH, MAX_TEXT, MAX_VALUES
from fate_flow.settings.limits import Limits
from fate_flow.settings.reader import load_settings

CHECKOUT = Path(__file__).parents[2]
README = CHECKOUT / "README.md"
STATE_MACHINES = CHECKOUT / "docs" / "explanation" / "state-machines.md"
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"
GUIDES = sorted((CHECKOUT / "docs" / "guides").glob("*.md"))
CONF = CHECKOUT / "conf" / "service_conf.yaml"
INDEX = CHECKOUT / "docs" / "README.md"
DOCUMENTS = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]

BEGIN, END = "<!-- begin: python -m fate_flow.core.diagram -->\n", "<!-- end: python -m fate_flow.core.diagram -->"
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def prose_of(path: Path) -> str:
    """The document without what stands in fences."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


# ---------------------------------------------------------------------- diagrams


def test_the_diagrams_are_those_that_the_tables_make() -> None:
    text = STATE_MACHINES.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    drawn = text.partition(BEGIN)[2].partition(END)[0]
    assert drawn == all_diagrams(), "paste the output of `python -m fate_flow.core.diagram` between the markers"


# ---------------------------------------------------------------------- commands


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_every_command_of_bin_that_is_named_can_be_run(path: Path) -> None:
    for name in sorted(set(re.findall(r"(?<![\w/.])bin/([a-z][\w.-]*\w)", path.read_text(encoding="utf-8")))):
        assert os.access(CHECKOUT / "bin" / name, os.X_OK), f"bin/{name} is not there, or cannot be run"


def test_the_readme_names_the_two_commands_before_anything_else() -> None:
    first = next(FENCE.finditer(README.read_text(encoding="utf-8")))[2]
    assert [line.split()[0] for line in first.splitlines()] == ["bin/demo", "bin/test"]


def test_the_readme_leads_on_after_three_screens() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert lines.index("## Where to read on") <= 120


def shell_lines() -> Iterator[list[str]]:
    """The words of each line of shell in the README and the guides."""
    for path in (README, *GUIDES):
        for language, text in FENCE.findall(path.read_text(encoding="utf-8")):
            if language == "sh":
                yield from filter(None, (shlex.split(line, comments=True) for line in text.splitlines()))


@pytest.mark.parametrize("words", [w for w in shell_lines() if w[0] in ("flow", "fate_flow")], ids=" ".join)
def test_every_flow_command_of_the_readme_and_the_guides_is_one(words: list[str]) -> None:
    command: click.Command = {"flow": flow, "fate_flow": fate_flow}[words[0]]
    arguments = words[1:]
    while arguments and arguments[0] in ("--server", "--profile"):
        del arguments[:2]
    while isinstance(command, click.Group):
        known = command.get_command(click.Context(command), arguments.pop(0)) if arguments else None
        assert known is not None, f"{' '.join(words)}: {command.name} has no such command"
        command = known
    options = {option for parameter in command.params for option in parameter.opts}
    unknown = [word for word in arguments if word.startswith("-") and word not in options]
    assert not unknown, f"{' '.join(words)}: no option {unknown}"


def commands_of(command: click.Command, path: str) -> Iterator[str]:
    """The commands that help shows, in full."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        if one is not None and not one.hidden:
            yield from commands_of(one, f"{path} {name}")


def test_the_page_of_commands_has_every_command_and_no_other() -> None:
    text = (CHECKOUT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+ [^`]+)` \|", text, re.MULTILINE))
    known = {*commands_of(flow, "flow"), *commands_of(fate_flow, "fate_flow")}
    assert rows == {one for one in known if not one.startswith("flow tracking ")} | {"flow tracking"}


# ---------------------------------------------------------------------- configuration


def the_conf() -> dict[str, Any]:
    document = yaml.safe_load(CONF.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def sections(document: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each mapping in the configuration; that of the whole is empty."""
    yield path
    for key, value in document.items():
        if isinstance(value, dict):
            yield from sections(value, (*path, key))


def written(folder: Path, document: dict[str, Any]) -> Path:
    """The document as a file that no overlay of this machine lies beside."""
    path = folder / "service_conf.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_the_variables_that_flow_reads_stand_in_the_guide() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "fate_flow" / "cli").rglob("*.py"))
    read = set(re.findall(r"\bFATE_FLOW_[A-Z_]+\b", sources))
    assert {"FATE_FLOW_SERVER", "FATE_FLOW_SETTINGS", "FATE_FLOW_PROFILE"} <= read
    guide = (CHECKOUT / "docs" / "guides" / "operate-a-server.md").read_text(encoding="utf-8")
    of_scripts = {"FATE_FLOW_CHECKOUT"}      # bin/* sets it for its own commands
    assert sorted(name for name in read - of_scripts if f"`{name}`" not in guide) == []


def test_every_key_of_the_configuration_is_read(tmp_path: Path) -> None:
    load_settings(written(tmp_path, the_conf()))


@pytest.mark.parametrize("path", list(sections(the_conf())), ids=lambda path: ".".join(path) or "top")
def test_a_key_that_is_not_read_would_be_refused(tmp_path: Path, path: tuple[str, ...]) -> None:
    document = the_conf()
    section = document
    for key in path:
        section = section[key]
    section["no_such_key"] = 1
    with pytest.raises(BadSettings, match="no_such_key"):
        load_settings(written(tmp_path, document))


def test_every_limit_is_in_the_configuration_with_its_default() -> None:
    assert the_conf()["limits"] == {field.name: field.default for field in fields(Limits)}


def test_the_page_of_configuration_keys_has_every_section() -> None:
    text = (CHECKOUT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    rows = {row.partition(".")[0] for row in re.findall(r"^\| `(\w[\w.]*)` \|", text, re.MULTILINE)}
    assert rows == set(the_conf())


# ---------------------------------------------------------------------- the job file


def test_every_key_of_a_job_file_is_in_its_document() -> None:
    described = (CHECKOUT / "docs" / "reference" / "job-file.md").read_text(encoding="utf-8")
    known = {key for one in (JOB, *JOB["$defs"].values()) for key in one.get("items", one)["properties"]}
    assert sorted(key for key in known if not re.search(rf"`(?:[\w*.]*\.)?{key}[`:]", described)) == []


# ---------------------------------------------------------------------- links


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose_of(path)))
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_inside_the_project_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(prose_of(path)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.is_relative_to(CHECKOUT), f"{link} leads out of the project"
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link}: {named(target)} has no such heading"


def linked_from(path: Path) -> set[Path]:
    links = (link.partition("#")[0] for link in LINK.findall(prose_of(path)) if "://" not in link)
    return {(path.parent / link).resolve() for link in links}


def test_the_readme_leads_to_the_index_and_the_index_to_every_document() -> None:
    assert INDEX in linked_from(README)
    assert linked_from(README) | linked_from(INDEX) >= set(DOCUMENTS)


# ---------------------------------------------------------------------- limits


def test_the_most_that_a_job_may_have_stands_in_the_documents() -> None:
    said = " ".join(prose_of(CHECKOUT / "docs" / "reference" / "compatibility.md").split())
    assert (
        f"A job has at most {MAX_PARTIES} parties, {MAX_COMPONENTS:,} components and {MAX_PARTY_TASKS:,} tasks over "
        f"all parties; a document at most {MAX_VALUES:,} values, {MAX_TEXT:,} characters and {MAX_DEPTH} levels."
    ) in said
    rows = (CHECKOUT / "docs" / "reference" / "job-file.md").read_text("utf-8").splitlines()
    assert f"; {MAX_PARTIES} in all are the most |" in next(row for row in rows if row.startswith("| `parties` |"))
    assert f"{MAX_PARTIES} in all are the most" in JOB["properties"]["parties"]["description"]


FILE = re.compile(r"`((?:docs|fate_flow|sql|tests)/[\w./-]*(?:\.py|\.md|\.json|\.sql|/))`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_files_that_are_named_are_there(path: Path) -> None:
    if path.name == "CHANGELOG.md":         # it names files of the release that it tells of
        return
    for name in FILE.findall(prose_of(path)):
        assert (CHECKOUT / name).exists(), f"{name} is not there"


def test_the_files_to_edit_are_named() -> None:
    assert len(set(FILE.findall(CONTRIBUTING.read_text(encoding="utf-8")))) > 30


FUNCTION = re.compile(r"\]\(([^)\s]+\.py)\) `([\w.]+)`")
"""A link to a file of the package, and what in it is meant: `function`, `Class.method` or `CONSTANT`."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_functions_that_are_named_behind_a_file_are_in_it(path: Path) -> None:
    for link, name in FUNCTION.findall(prose_of(path)):
        text = (path.parent / link).read_text(encoding="utf-8")
        for part in name.split("."):
            is_there = re.search(rf"^ *(?:(?:def|class) {part}\b|{part}\b[^=\n]* =)", text, re.MULTILINE)
            assert is_there, f"{link} has no {part} ({name})"


PACKAGE = CHECKOUT / "fate_flow"
MODULE = re.compile(r"[\w/]*\w\.py\b(?!\[)")       # `file.py[line:N]` is the form of a log line


def test_modules_that_the_package_names_are_there() -> None:
    folders = (PACKAGE, CHECKOUT / "tests")
    paths = {f"/{path.relative_to(CHECKOUT)}" for folder in folders for path in folder.rglob("*.py")}
    missing = {
        f"{path.relative_to(CHECKOUT)} names {name}"
        for path in PACKAGE.rglob("*.py")
        for name in MODULE.findall(path.read_text(encoding="utf-8"))
        if not any(one.endswith(f"/{name.lstrip('/')}") for one in paths)
    }
    assert sorted(missing) == []


def test_where_it_is_decided_names_functions() -> None:
    architecture = prose_of(CHECKOUT / "docs" / "explanation" / "architecture.md")
    section = architecture.partition("\n## Where is it decided?\n")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    assert [row for row in rows if not FUNCTION.search(row)] == []


# ---------------------------------------------------------------------- tests that are named

LIFECYCLE = CHECKOUT / "docs" / "explanation" / "lifecycle.md"
ORIGINS = CHECKOUT / "docs" / "reference" / "origins.md"
NAMED_TEST = re.compile(r"`(test_\w+\.py)?(?:::(test_\w+))?`")


def each_test_named_in(text: str) -> Iterator[tuple[str, str]]:
    """File and function, the function empty where a whole file is meant; `::test_x` is in the file named before."""
    file = ""
    for found in NAMED_TEST.finditer(text):
        file = found[1] or file
        if found[1] or found[2]:
            yield file, found[2] or ""


THREATS = CHECKOUT / "docs" / "security.md"


@pytest.mark.parametrize("pages", [(LIFECYCLE, ORIGINS), (THREATS,)], ids=["the life cycle", "threats"])
def test_every_test_that_is_named_is_there(pages: tuple[Path, ...]) -> None:
    files: dict[str, str] = {}
    for path in (CHECKOUT / "tests").rglob("test_*.py"):
        files[path.name] = files.get(path.name, "") + path.read_text(encoding="utf-8")
    named_tests = {one for page in pages for one in each_test_named_in(prose_of(page))}
    assert len(named_tests) > 50
    contract = "".join(path.read_text("utf-8") for path in (CHECKOUT / "tests" / "store_contract").glob("*.py"))
    for file, function in sorted(named_tests):
        assert file in files, f"{file} is not there"
        assert not function or f"def {function}(" in files[file] + contract, f"{file} has no {function}"


def test_each_threat_names_a_test() -> None:
    section = prose_of(THREATS).partition("\n## Threats\n")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ") and not row.startswith("| attack |")]
    assert len(rows) > 30
    assert [row for row in rows if not NAMED_TEST.search(row)] == []
