"""flow job"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import copy
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
from fate_flow.cli.output.counts import check_counts_all, count_all, print_number
from fate_flow.cli.output.job_output import follow_job_output
from fate_flow.cli.output.lists import is_for_people, print_jobs, show_as
from fate_flow.cli.output.lists_of_jobs import print_outputs
from fate_flow.cli.output.named_jobs import show_of_job
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
    help="Id of this submit: repeating it with the same content returns the same job; other content is refused.",
)
@with_client
def submit(client: Client, is_watched: bool, request_id: str | None, **files: str | None) -> None:
    """Submit a job to its initiator: one YAML file, or FATE's two JSON files.

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
    """Check a job and show what each party would run; start nothing.

    The output has the parameters and cores of each party. The server asks every party whether it would accept the job,
    and which of the requested values it would lower. The output names the parties that were not asked: those that do
    not answer, and those that speak only plain FATE v1.

    \b
    Example: flow job validate -f job.yaml
             flow job validate -c conf.json -d dsl.json
    """
    from fate_flow.cli.output.render import print_plan

    answer = client.submit("job/validate", submission(**files))
    if is_for_people(as_json) and (problems := problems_of(answer)):
        # without the plan: it is long and would hide the problems; --json prints it
        raise CallFailed("\n".join(problems), {**answer.envelope, "data": {"problems": problems}})
    show_as(answer, as_json, print_plan)


@job.command()
def schema() -> None:
    """Print the JSON Schema of job files, for editors. This needs no server.

    Example: flow job schema > job.schema.json
    """
    from fate_flow.jobspec.native.schema import schema_text

    click.echo(schema_text(), nl=False)


@job.command("list")
@options.limit()
@click.option("--text", help="A part of the name or the notes, or the beginning of the id.")
@options.status()
@click.option("--party", help="Id of a party that takes part.")
@click.option("--person", help="Who has submitted, approved, rejected or held it at this party.")
@click.option("--component", help="A task of the job, or the component that it runs.")
@click.option("--after", metavar="TIME", help="Created then or later: 2026-01-31 or 2026-01-31T08:30, in UTC.")
@click.option("--before", metavar="TIME", help="Created before; as 2026-01-31T08:30+01:00 in another time zone.")
@click.option("--from", "place", metavar="PLACE", help="Go on from the place that the page before has named.")
@click.option("--count", "is_count", is_flag=True, help="Only count them, all that fit; not with --from or --limit.")
@click.option("--page", type=int, help="Page number, from 1, of all jobs; not with the options above but --limit.")
@options.form()
@with_client
def list_jobs(
    client: Client, as_json: bool | None, limit: int, page: int | None, place: str | None, is_count: bool, **wanted: Any
) -> None:
    """List the newest jobs of this party that match all given options.

    One request looks at a bounded number of jobs; the end of the list says how to go on. As JSON, without an option
    that selects jobs, the answer is that of FATE, which counts all jobs.

    \b
    Example: flow job list -l 30
             flow job list --status failed --party 10000 --after 2026-11-01
             flow job list --after 2026-11-28T08:00 --before 2026-11-28T09:30
             flow job list --person ann --count
    """
    wanted = given({**wanted, "from": place})
    selects = bool(wanted) or is_count
    if is_count:
        check_counts_all(place, "jobs")
    if page is not None and selects:
        raise click.UsageError("--page: is a page of all jobs; with other options the list goes on by --from")
    if page is not None or not (selects or is_for_people(as_json)):
        show_as(client.post("job/list/job", given({"limit": limit, "page": page})), as_json, print_jobs)
    elif is_count:
        print_number(count_all(client, "job/search/count", wanted), "job", as_json)
    else:
        show_as(client.post("job/search", {**wanted, "limit": limit}), as_json, print_jobs)


@job.command()
@options.job_id()
@options.role()
@options.party_id()
@options.status()
@options.limit(None, "Maximum number of jobs; 1000 by default.")
@options.page()
@options.form()
@with_client
def query(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the jobs that match all given options, without their documents.

    Example: flow job query -j 202601011200000000000 -r guest -p 9999
    """
    answer = client.post("job/query", given(body))
    for row in answer.data if isinstance(answer.data, list) else ():
        row.pop("f_runtime_conf", None)
        row.pop("f_dsl", None)
    show_as(answer, as_json, print_jobs)


@job.command()
@options.job_id(required=True)
@click.option("--now", is_flag=True, help="Kill the workers at once instead of after stop_duration.")
@with_client
def stop(client: Client, job_id: str, now: bool) -> None:
    """Stop a job at every party.

    Its workers are asked to exit, and are killed after stop_duration.

    Example: flow job stop -j 202601011200000000000
    """
    show(client.post("job/stop", {"job_id": job_id, **({"now": True} if now else {})}))


@job.command()
@options.job_id(required=True)
@options.component_name()
@click.option("--force", is_flag=True, help="Without a component: also run the succeeded tasks again.")
@with_client
def rerun(client: Client, **body: Any) -> None:
    """Rerun a finished job: the tasks that did not succeed, and all that depend on them. The rest is kept.

    With -cpn, rerun that component and all that depend on it. With --force and without -cpn, rerun every task. Only
    the initiator's server accepts this. A rerun does not count as a retry.

    \b
    Example: flow job rerun -j 202601011200000000000
             flow job rerun -j 202601011200000000000 -cpn intersection_0
    """
    show(client.post("job/rerun", given(body)))


@job.command()
@options.job_id(required=True)
@with_client
def resume(client: Client, **body: Any) -> None:
    """Continue a canceled job where it was stopped; succeeded tasks are kept. Only the initiator's server accepts this.

    Example: flow job resume -j 202601011200000000000
    """
    show(client.post("job/resume", body))


@job.command("parameter-update")
@options.job_id(required=True)
@options.conf_path()
@with_client
def update_parameters(client: Client, job_id: str, conf_path: str) -> None:
    """Change the parameters of a waiting or finished job at all its parties.

    Parameters that the file does not name stay. A finished job uses the new ones in a rerun: `flow job rerun` runs the
    components with changed parameters again, and all that depend on them. Only the initiator's server accepts this. If
    a party refuses or does not answer, nothing changes.

    \b
    Example: flow job parameter-update -j 202601011200000000000 -c update.json
    update.json: {"job_parameters": {"common": {"task_cores": 2}},
                  "component_parameters": {"common": {"sum_0": {"column": "x"}}}}
    """
    show(client.submit("job/parameter/update", overlaid(conf_path, job_id=job_id)))


@job.command()
@options.job_id(required=True)
@click.option("--set", "priority", type=int, required=True, help="New priority, -1000 to 1000; the highest goes first.")
@with_client
def priority(client: Client, **body: Any) -> None:
    """Change the priority of a waiting job; a rerun keeps it. Only the initiator's server accepts this.

    Example: flow job priority -j 202601011200000000000 --set 10
    """
    show(client.post("job/priority", body))


@job.command()
@options.job_id(required=True)
@options.message("Reason; `flow job explain` shows it.")
@options.author()
@with_client
def hold(client: Client, **body: Any) -> None:
    """Suspend a waiting job until `release`. Only the initiator's server accepts this.

    Example: flow job hold -j 202601011200000000000 --message "until the new data is there"
    """
    show(client.post("job/hold", body))


@job.command()
@options.job_id(required=True)
@options.author()
@with_client
def release(client: Client, **body: Any) -> None:
    """End the hold of a job: it can start again. The time on hold does not count towards the time limits.

    Example: flow job release -j 202601011200000000000
    """
    show(client.post("job/release", body))


@job.command()
@options.job_id(required=True)
@click.option("--reason", help="Reason; shown to the initiator.")
@click.option("--revision", type=int, help="Approve only this revision of the parameters (see flow job explain).")
@click.option("--digest", metavar="DOCUMENT", help="Approve only the document with this digest (see flow job config).")
@options.author()
@with_client
def approve(client: Client, **body: Any) -> None:
    """Accept a job of another initiator at this party. A rerun of the job needs no new approval.

    Without --digest, this approves the job's current document, and prints its digest.

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
@click.option("--reason", required=True, help="Reason; shown to the initiator as the reason why its job ended.")
@options.author()
@with_client
def reject(client: Client, **body: Any) -> None:
    """Reject a job of another initiator at this party: the job ends.

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
    """Write the documents of a job to files in OUTPUT_PATH/job_<id>_config.

    Example: flow job config -j 202601011200000000000 -r guest -p 9999 -o .
    """
    answer = client.post("job/config", body)
    documents = data_of(answer)
    folder = folder_in(body["output_path"], f"job_{body['job_id']}_config")
    _write_each(documents, folder)
    rest = {key: value for key, value in documents.items() if key not in ("dsl", "runtime_conf", "document")}
    print_json({**answer.envelope, **downloaded(folder), "data": rest})


@job.command()
@click.option("--train-dsl-path", required=True, type=_FILE, help="DSL of the training, a JSON file.")
@click.option("--cpn-list", metavar="NAMES", help="Names of the components that predict, separated by commas.")
@click.option("--cpn-path", type=_FILE, help="File with the names, instead of --cpn-list.")
@options.output_path()
@with_client
def dsl(
    client: Client, train_dsl_path: str, cpn_list: str | None, cpn_path: str | None, output_path: str | None
) -> None:
    """Derive the DSL of a prediction from that of a training.

    It is printed, or written to a file in OUTPUT_PATH. Readers that the named components need are included. Without
    names, all components are included except those with "need_deploy": false.

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
@options.output_path()
@click.option("-f", "--follow", "is_followed", is_flag=True, help="Print what its workers print, until the job ends.")
@with_client
def log(client: Client, is_followed: bool, **body: Any) -> None:
    """Download the logs of a job into OUTPUT_PATH/job_<id>_log; or follow what its workers print (-f).

    -f shows the lines of all workers of this party, and of the parties that share them with the job's initiator, from
    their beginning. The name of the task and the party is in front of each.

    \b
    Example: flow job log -j 202601011200000000000 -o .
             flow job log -j 202601011200000000000 -f
    """
    if is_followed == (body["output_path"] is not None):
        raise click.UsageError("give either -o, for a folder, or -f")
    if is_followed:
        follow_job_output(client, body["job_id"])
        return
    folder = folder_in(body["output_path"], f"job_{body['job_id']}_log")
    answer = fetch_folder(client, "POST", "job/log/download", body, folder)
    if answer is not None:
        refuse(answer)
    print_json(downloaded(folder))


_logs = copy(log)          # also under the plural, which help and completion do not name
_logs.hidden = True
job.add_command(_logs, "logs")


@job.command()
@options.job_id()
@options.role()
@options.party_id()
@options.status()
@options.form()
@with_client
def view(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the output tables of a job's tasks.

    Example: flow job view -j 202601011200000000000 -r guest -p 9999
    """
    show_of_job(client.post("job/data/view/query", given(body)), body["job_id"], as_json, print_outputs)


@job.command()
@options.job_id(required=True)
@with_client
def watch(client: Client, job_id: str) -> None:
    """Show progress per task and party until the job ends; fail if the job fails. Ctrl-C does not stop the job.

    Example: flow job watch -j 202601011200000000000
    """
    from fate_flow.cli.output.progress import open_screen

    follow(client, job_id, open_screen())


@job.command()
@options.job_id(required=True)
@options.form()
@with_client
def explain(client: Client, job_id: str, as_json: bool | None) -> None:
    """Explain the state of a job, of its parties and of its tasks.

    For a waiting job, this shows its place in the queue and what it waits for.

    Example: flow job explain -j 202601011200000000000
    """
    from fate_flow.cli.output.render import print_explanation

    show_as(client.post("job/explain", {"job_id": job_id}), as_json, partial(print_explanation, job_id))


@job.command()
@options.job_id(required=True)
@options.form()
@with_client
def history(client: Client, job_id: str, as_json: bool | None) -> None:
    """Print every change of state of a job, its parties, tasks and workers.

    The changes are in the order in which each party saw them. The initiator's server also asks the other parties; the
    output names those that do not answer.

    Example: flow job history -j 202601011200000000000
    """
    from fate_flow.cli.output.history_table import print_history

    show_of_job(client.post("job/history", {"job_id": job_id}), job_id, as_json, print_history)


@job.command()
@options.job_id(required=True)
@click.option("--first", type=click.IntRange(0), help="The number of the first change to print, from 0.")
@options.form()
@with_client
def changes(client: Client, as_json: bool | None, **body: Any) -> None:
    """Print how a job's document differs from the last one that this party has approved.

    That is the newest approved job of the same initiator with the same name, or else with the same tasks.

    Example: flow job changes -j 202601011200000000000
    """
    from fate_flow.cli.output.changes_table import print_changes

    show_of_job(client.post("job/changes", given(body)), body["job_id"], as_json, print_changes)


def problems_of(answer: ServerReply) -> list[str]:
    """Return the problems of a job that the server lists."""
    found = answer.data.get("problems") if isinstance(answer.data, Mapping) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _write_each(documents: Mapping[str, Any], folder: Path) -> None:
    """Write a JSON file for each document; `job_id` is not a document."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in documents.items():
        if key != "job_id" and _PLAIN_NAME.fullmatch(key):
            text = json.dumps(value, indent=4, ensure_ascii=False)
            (folder / f"{key}.json").write_text(text, encoding="utf-8")
