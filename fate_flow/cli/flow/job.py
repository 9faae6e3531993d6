"""flow job"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed, Client, data_of
from fate_flow.cli.console.display import print_json, refuse, show, tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.console.wording import party_name, short_digest
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid, read_text, submission
from fate_flow.cli.output.lists import is_for_people, print_jobs, print_outputs, show_as
from fate_flow.cli.output.unpacked import downloaded, fetch_file, fetch_folder, folder_in
from fate_flow.cli.output.watch import follow, follow_submitted, show_submitted

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,100}")
_FILE = click.Path(exists=True, dir_okay=False)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")


@click.group()
def job() -> None:
    """Submit, watch, explain, stop and rerun jobs.

    Example: flow job submit -c conf.json -d dsl.json --watch
    """


def _request_id(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _REQUEST_ID.fullmatch(value):
        raise click.BadParameter("is 1 to 100 printable ASCII characters without spaces")
    return value


@job.command()
@options.job_file()
@options.conf_path(required=False)
@options.dsl_path()
@options.watched()
@click.option(
    "--request-id", callback=_request_id, metavar="ID",
    help="Repeated with the same id, the submit answers with the same job; with other content, it is refused.",
)
@with_client
def submit(client: Client, is_watched: bool, request_id: str | None, **files: str | None) -> None:
    """Submits a job to its initiator: one YAML file, or the two JSON files of FATE.

    \b
    Example: flow job submit -f job.yaml --watch
             flow job submit -c conf.json -d dsl.json
    """
    headers = {"Idempotency-Key": request_id} if request_id else None
    answer = client.submit("job/submit", submission(**files), headers)
    show_submitted(answer, is_watched)
    for one in data_of(answer).get("effective") or ():
        tell(f"note: {party_name(one)}: {one.get('message')}")
    if is_watched:
        from fate_flow.cli.output.progress import open_screen

        follow_submitted(client, answer, open_screen())


@job.command()
@options.job_file()
@options.conf_path(required=False)
@options.dsl_path()
@options.form()
@with_client
def validate(client: Client, as_json: bool | None, **files: str | None) -> None:
    """Checks a job and shows what each party would run, with which parameters and cores; starts nothing.

    Every party is asked whether it would take part, and what it would give less of than is asked for; a party that
    does not answer, or that speaks plain FATE v1, is named as not asked.

    \b
    Example: flow job validate -f job.yaml
             flow job validate -c conf.json -d dsl.json
    """
    from fate_flow.cli.output.render import print_plan

    answer = client.submit("job/validate", submission(**files))
    if is_for_people(as_json) and (problems := problems_of(answer)):
        # without the plan, which is long and would hide them; --json has it
        raise CallFailed("\n".join(problems), {**answer.envelope, "data": {"problems": problems}})
    show_as(answer, as_json, print_plan)


@job.command()
def schema() -> None:
    """Prints the JSON Schema of job files, for editors. No server is asked.

    Example: flow job schema > job.schema.json
    """
    from fate_flow.jobspec.native.schema import schema_text

    click.echo(schema_text(), nl=False)


@job.command("list")
@options.limit()
@options.page()
@options.form()
@with_client
def list_jobs(client: Client, as_json: bool | None, **body: Any) -> None:
    """The newest jobs of this party.

    Example: flow job list -l 30 --page 2
    """
    show_as(client.post("job/list/job", given(body)), as_json, print_jobs)


@job.command()
@options.job_id()
@options.role()
@options.party_id()
@options.status()
@options.limit(None, "So many at most; 1000 unless given.")
@options.page()
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """The jobs that these options mean, without their documents.

    Example: flow job query -j 202601011200000000000 -r guest -p 9999
    """
    answer = client.post("job/query", given(body))
    for row in answer.data if isinstance(answer.data, list) else ():
        row.pop("f_runtime_conf", None)
        row.pop("f_dsl", None)
    show_as(answer, as_json, print_jobs)


@job.command()
@options.job_id(required=True)
@click.option("--now", is_flag=True, help="Leave its workers no time to finish what they are at.")
@with_client
def stop(client: Client, job_id: str, now: bool) -> None:
    """Stops a job at every party: its workers are asked to end, and killed when stop_duration is over.

    Example: flow job stop -j 202601011200000000000
    """
    show(client.post("job/stop", {"job_id": job_id, **({"now": True} if now else {})}))


@job.command()
@options.job_id(required=True)
@options.component_name()
@click.option("--force", is_flag=True, help="Without a component: run again also what has succeeded.")
@with_client
def rerun(client: Client, **body: Any) -> None:
    """Has a job that is over begin again: what has not succeeded, and all that needs it; the rest is kept.

    With a component it runs again from there on, with --force alone all of it. Asked at the initiator; retries stay.

    \b
    Example: flow job rerun -j 202601011200000000000
             flow job rerun -j 202601011200000000000 -cpn intersection_0
    """
    show(client.post("job/rerun", given(body)))


@job.command()
@options.job_id(required=True)
@with_client
def resume(client: Client, **body: Any) -> None:
    """Has a canceled job go on where it was stopped: what has succeeded is kept. Asked at the initiator.

    Example: flow job resume -j 202601011200000000000
    """
    show(client.post("job/resume", body))


@job.command("parameter-update")
@options.job_id(required=True)
@options.conf_path()
@with_client
def update_parameters(client: Client, job_id: str, conf_path: str) -> None:
    """Gives a job that waits or is over other parameters, at all its parties; flow job rerun takes them up.

    What the file does not name stays. A component whose parameters change runs again, and all that needs it. Asked at
    the initiator; where a party refuses, or does not answer, nothing is changed.

    \b
    Example: flow job parameter-update -j 202601011200000000000 -c update.json
    update.json: {"job_parameters": {"common": {"task_cores": 2}},
                  "component_parameters": {"common": {"sum_0": {"column": "x"}}}}
    """
    show(client.submit("job/parameter/update", overlaid(conf_path, job_id=job_id)))


@job.command()
@options.job_id(required=True)
@click.option("--set", "priority", type=int, required=True, help="From -1000 to 1000; higher goes first.")
@with_client
def priority(client: Client, **body: Any) -> None:
    """Gives a job that waits another priority. Asked at its initiator; rerun, it keeps it.

    Example: flow job priority -j 202601011200000000000 --set 10
    """
    show(client.post("job/priority", body))


@job.command()
@options.job_id(required=True)
@options.message("Why; shown to everybody who asks how the job stands.")
@options.author()
@with_client
def hold(client: Client, **body: Any) -> None:
    """Has a job that waits go on waiting until it is released. Asked at its initiator.

    Example: flow job hold -j 202601011200000000000 --message "until the new data is there"
    """
    show(client.post("job/hold", body))


@job.command()
@options.job_id(required=True)
@options.author()
@with_client
def release(client: Client, **body: Any) -> None:
    """Lets a job that is on hold have its turn again. The time that it was held counts for no limit.

    Example: flow job release -j 202601011200000000000
    """
    show(client.post("job/release", body))


@job.command()
@options.job_id(required=True)
@click.option("--reason", help="Why; the initiator is told.")
@click.option("--revision", type=int, help="Only with the parameters that you have looked at (flow job explain).")
@click.option("--digest", metavar="DOCUMENT", help="Only the document that you have looked at (flow job config).")
@options.author()
@with_client
def approve(client: Client, **body: Any) -> None:
    """This party takes part in a job of another initiator. A rerun of the job needs no other approval.

    Without --digest it is the document that the job has now, which is printed.

    \b
    Example: flow job approve -j 202601011200000000000 --reason "contract 7"
             flow job approve -j 202601011200000000000 --digest 3b1f0c9d5e7a42684d0be2a95c7713f6
    """
    if body["digest"] is None:
        approval = data_of(client.post("job/explain", {"job_id": body["job_id"]})).get("approval") or {}
        if digest := approval.get("digest"):
            body["digest"] = digest
            tell(f"this approves the document {short_digest(digest)} (revision {approval.get('revision')})")
    show(client.post("job/approve", given(body)))


@job.command()
@options.job_id(required=True)
@click.option("--reason", required=True, help="Why; the initiator is told, and its job ends with it.")
@options.author()
@with_client
def reject(client: Client, **body: Any) -> None:
    """This party takes no part in a job of another initiator: the job ends.

    Example: flow job reject -j 202601011200000000000 --reason "no contract for this data"
    """
    show(client.post("job/reject", body))


@job.command()
@options.job_id(required=True)
@options.role(required=True)
@options.party_id(required=True)
@options.output_path(required=True)
@with_client
def config(client: Client, **body: Any) -> None:
    """Writes the documents of a job to files in OUTPUT_PATH/job_<id>_config.

    Example: flow job config -j 202601011200000000000 -r guest -p 9999 -o .
    """
    answer = client.post("job/config", body)
    documents = data_of(answer)
    folder = folder_in(body["output_path"], f"job_{body['job_id']}_config")
    _write_each(documents, folder)
    rest = {key: value for key, value in documents.items() if key not in ("dsl", "runtime_conf")}
    print_json({**answer.envelope, **downloaded(folder), "data": rest})


@job.command()
@click.option("--train-dsl-path", required=True, type=_FILE, help="The DSL of the training, JSON.")
@click.option("--cpn-list", metavar="NAMES", help="The components that predict, between commas.")
@click.option("--cpn-path", type=_FILE, help="A file with their names, instead of --cpn-list.")
@options.output_path()
@with_client
def dsl(
    client: Client, train_dsl_path: str, cpn_list: str | None, cpn_path: str | None, output_path: str | None
) -> None:
    """Makes the DSL of a prediction of that of a training; printed, or written to a file in OUTPUT_PATH.

    Readers that the components need come with them. Without names, all come but those with "need_deploy": false.

    \b
    Example: flow job dsl --train-dsl-path dsl.json --cpn-list "reader_0, prep_0, lr_0"
             flow job dsl --train-dsl-path dsl.json --cpn-path names.txt -o .
    """
    names = cpn_list or (read_text(cpn_path) if cpn_path else "")
    body = {"cpn_str": names, "train_dsl": read_text(train_dsl_path), "version": "2"}
    if output_path is None:
        show(client.post("job/dsl/generate", body))
        return
    target = folder_in(output_path, f"predict_dsl_{datetime.now():%Y%m%d%H%M%S}.json")
    fetch_file(client, "job/dsl/generate", {**body, "filename": target.name}, target)
    made = f"New predict dsl file has been generated successfully. File path is: {target}"
    print_json({"retcode": 0, "retmsg": made})


@job.command()
@options.job_id(required=True)
@options.output_path(required=True)
@with_client
def log(client: Client, **body: Any) -> None:
    """Fetches the logs of a job into OUTPUT_PATH/job_<id>_log.

    Example: flow job log -j 202601011200000000000 -o .
    """
    folder = folder_in(body["output_path"], f"job_{body['job_id']}_log")
    answer = fetch_folder(client, "POST", "job/log/download", body, folder)
    if answer is not None:
        refuse(answer)
    print_json(downloaded(folder))


@job.command()
@options.job_id()
@options.role()
@options.party_id()
@options.status()
@options.form()
@with_client
def view(client: Client, as_json: bool | None, **body: Any) -> None:
    """The output data of a job's tasks.

    Example: flow job view -j 202601011200000000000 -r guest -p 9999
    """
    show_as(client.post("job/data/view/query", given(body)), as_json, print_outputs)


@job.command()
@options.job_id(required=True)
@with_client
def watch(client: Client, job_id: str) -> None:
    """Shows the progress per task and party until the job ends; fails when it fails. Ctrl-C leaves it running.

    Example: flow job watch -j 202601011200000000000
    """
    from fate_flow.cli.output.progress import open_screen

    follow(client, job_id, open_screen())


@job.command()
@options.job_id(required=True)
@options.form()
@with_client
def explain(client: Client, job_id: str, as_json: bool | None) -> None:
    """Says how a job stands and why: what it waits for, its place in the queue, each party and task.

    Example: flow job explain -j 202601011200000000000
    """
    from fate_flow.cli.output.render import print_explanation

    show_as(client.post("job/explain", {"job_id": job_id}), as_json, partial(print_explanation, job_id))


@job.command()
@options.job_id(required=True)
@options.form()
@with_client
def history(client: Client, job_id: str, as_json: bool | None) -> None:
    """Prints every move of a job, its parties, tasks and workers, in the order in which each party saw them.

    At the initiator of the job the other parties are asked too, and those are named that do not answer.

    Example: flow job history -j 202601011200000000000
    """
    from fate_flow.cli.output.history_table import print_history

    show_as(client.post("job/history", {"job_id": job_id}), as_json, print_history)


def problems_of(answer: ServerReply) -> list[str]:
    """All that is wrong with a job, as far as the server lists it."""
    found = answer.data.get("problems") if isinstance(answer.data, Mapping) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _write_each(documents: Mapping[str, Any], folder: Path) -> None:
    """A JSON file for each document; `job_id` is none."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in documents.items():
        if key != "job_id" and _PLAIN_NAME.fullmatch(key):
            text = json.dumps(value, indent=4, ensure_ascii=False)
            (folder / f"{key}.json").write_text(text, encoding="utf-8")
