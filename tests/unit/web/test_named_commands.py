"""The commands that pages name: each exists, and has all the options that it needs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import click
import pytest
from click.testing import CliRunner

from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.flow.main import flow
from fate_flow.cli.server.main import fate_flow
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.store.values import TableMeta
from fate_flow.store.views.board import PAGE
from fate_flow.web.pages import FOLDER
from tests.kit.api.client_world import GUEST, HOST, START, World, make_world
from tests.kit.web.browser import Browser, Page
from tests.kit.web.filled_task import add_filled_task


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(make_world(tmp_path))


def named(browser: Browser, path: str) -> list[str]:
    text = "; ".join(re.findall(r"The same by command: <code>(.*?)</code>", browser.page(path).text))
    assert text, path
    return unescape(text).split("; ")


def parsed(text: str) -> str:
    """Parse a command as `flow` or `fate_flow` does, without carrying it out; what it is for. Raise UsageError."""
    name, *rest = shlex.split(text)
    command: click.Command = {"flow": flow, "fate_flow": fate_flow}[name]
    context = None
    while isinstance(command, click.Group):
        outer = click.Context(command, parent=context, info_name=name)
        found = command.get_command(outer, rest[0])
        if found is None:
            raise click.UsageError(f"there is no {rest[0]} in {name}")
        command, context, name, rest = found, outer, rest[0], rest[1:]
    with command.make_context(name, rest, parent=context):
        return command.help or ""


def test_each_command_that_a_page_names_can_be_given(browser: Browser) -> None:
    world = browser.world
    job_id, waiting = add_filled_task(world), world.add_job(f_lacks="room", f_wait_reason="no free cores")
    running = world.add_job(status=JobStatus.RUNNING, f_claim="c", f_resource_in_use=True, f_start_time=START)
    for party in (GUEST, HOST):
        world.add_task(running, party=party, f_start_time=START)
    with world.store.transaction() as tx:
        tx.add_to_record([new_entry(OWN_LOG, Kind.ACT, START, {"what": "job stopped"}, job_id=job_id)])
        tx.save_table(TableMeta("two words", "it's", "standalone:///data/two%20words/it%27s", 1, {}), START)
    task, log = f"/board/jobs/{job_id}/tasks/toy_0", f"/board/jobs/{job_id}/tasks/toy_0/log"
    paths = [
        "/board/", "/board/jobs", "/board/jobs?text=a+b%27c&status=failed&party=10000&person=ann&component=toy_0"
        "&after=2026-01-01&before=2026-02-01", "/board/queue", "/board/approvals",
        *(f"/board/data?origin={one}" for one in ("upload", "output", "writer", "table_bind")),
        "/board/data/table?namespace=two+words&name=it%27s", f"/board/jobs/{waiting}", f"/board/jobs/{job_id}/history",
        f"/board/jobs/{waiting}/tasks/toy_0", task, f"/board/jobs/{running}/tasks/toy_0?party=host-10000",
        f"{task}/metrics", f"{task}/model?output=model", f"{log}?worker=0&attempt=0", f"{log}?stream=INFO",
        f"{log}?stream=stderr", "/board/audit", "/board/audit?kind=act&party=10000&after=2026-01-01",
        f"/board/audit?job={job_id}", f"/board/jobs/{job_id}/record",
    ]  # fmt: skip
    wrong = {}
    for path in paths:
        for command in named(browser, path):
            try:
                meaning = parsed(command)
            except click.UsageError as error:
                wrong[path, command] = error.format_message()
            else:
                assert not meaning.startswith("Not offered"), (path, command)
    assert wrong == {}


class Direct:
    """The client of a command, which asks the server of a test."""

    def __init__(self, world: World) -> None:
        self._world = world

    def post(self, path: str, body: Mapping[str, Any]) -> ServerReply:
        response = self._world.post(path, body)
        return ServerReply(response.status_code, response.json or {})


def carried_out(world: World, text: str) -> Any:
    """What a command prints as JSON."""
    done = CliRunner().invoke(flow, [*shlex.split(text)[1:], "--json"], obj=Direct(world))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["data"]


def rows_of(page: Page, begin: str) -> list[str]:
    """What the list on a page links to, by what follows the begin of each address."""
    found = (str(one.attributes.get("href", "")) for one in page.tags if one.name == "a")
    return [unquote_plus(one.removeprefix(begin)) for one in found if one.startswith(begin)]


@pytest.mark.parametrize(("path", "begin", "key"), [
    ("/board/jobs?status=failed", "/board/jobs/", "job_id"), ("/board/queue", "/board/jobs/", "job_id"),
    ("/board/data?origin=output&namespace=it%27s", "/board/data/table?namespace=it%27s&name=", "table_name"),
])  # fmt: skip
def test_the_command_of_a_list_prints_the_rows_of_the_page(browser: Browser, path: str, begin: str, key: str) -> None:
    world = browser.world
    for number in range(2 * PAGE + 10):
        world.add_job(status=JobStatus.FAILED)
        world.add_job(f_queue_key=number)
    with world.store.transaction() as tx:
        for number in range(2 * PAGE + 10):
            for namespace in ("it's", "demo"):
                tx.save_table(TableMeta(namespace, f"t/{number}", "x", 1, {}, origin="output"), START + number // 2)
    numbers, following = list[int](), path
    while following:
        page, [command] = browser.page(following), named(browser, following)
        data = carried_out(world, command)
        listed = [one[key] for one in data["tables" if key == "table_name" else "jobs"]]
        assert listed == rows_of(page, begin), command
        numbers.append(len(listed))
        following = next((str(one.attributes["href"]) for one in page.tags if one.attributes.get("rel") == "next"), "")
    assert numbers == [PAGE, PAGE, 10]


def test_a_task_names_a_command_for_each_thing_that_it_shows(browser: Browser) -> None:
    job_id, later = add_filled_task(browser.world), browser.world.add_job()
    of_task, seat = f"-j {job_id} -cpn toy_0", "-r guest -p 9999"
    assert named(browser, f"/board/jobs/{job_id}/tasks/toy_0") == [
        f"flow task query {of_task}", f"flow task log {of_task} {seat} -v 1",
        f"flow component output-data-table {of_task} {seat} -v 1",
        f"flow task output {of_task} {seat} -v 1 -n report -o report",
        f"flow component output-model {of_task} {seat} -v 1",
    ]  # fmt: skip
    earlier = named(browser, f"/board/jobs/{job_id}/tasks/toy_0?version=0")
    assert [one for one in earlier if one.startswith("flow component")] == [
        f"flow component output-data-table {of_task} {seat} -v 0",
    ]
    of_task = f"-j {later} -cpn toy_0"
    assert named(browser, f"/board/jobs/{later}/tasks/toy_0") == [
        f"flow task query {of_task}", f"flow component output-data-table {of_task} {seat}",
    ]  # fmt: skip


def test_checks_of_the_record_name_commands_that_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "FILE").touch()
    templates = (FOLDER / "templates" / "audit").glob("*.html")
    texts = [found for one in templates for found in re.findall(r'command\("([^"]+)"', one.read_text(encoding="utf-8"))]
    assert len(texts) >= 3
    for text in texts:
        named = text.replace("FILE", shlex.quote(str(tmp_path / "FILE")))
        parsed(named + (" 10000" if text.endswith((" -p ", " -j ")) else ""))


@pytest.mark.parametrize("text", [
    "flow table info -n a", "flow table lists", "flow job explain --of 1", "flow job -j 1",
])  # fmt: skip
def test_a_command_that_cannot_be_given_is_noticed(text: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(text)
