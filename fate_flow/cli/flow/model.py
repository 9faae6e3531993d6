"""flow model, flow tag"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import print_json, refuse, show
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import overlaid, read_text
from fate_flow.cli.output.models import print_model, print_models
from fate_flow.cli.output.named_jobs import show_with_jobs
from fate_flow.cli.output.unpacked import fetch_file, folder_in
from fate_flow.cli.output.upload_body import MultipartFile

_SEPARATORS = re.compile(r"[\s,\[\]'\"]+")


def _model_id(*, required: bool = False) -> Callable[..., Any]:
    return click.option("--model-id", required=required, help="Id of a model: that of its job, or FATE's.")


def _model_version(*, required: bool = False) -> Callable[..., Any]:
    return click.option(
        "--model-version", required=required,
        help="Version of a model: a number, or as in FATE the id of its job or the version of a deployed model.",
    )


def _parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name parts of a model."""
    for option in (
        click.option("--output-key", help="Only this output of the task."),
        click.option("--task-name", help="Only what this task has made."),
        options.party_id(), options.role(), _model_version(), _model_id(),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group()
def model() -> None:
    """Show, deploy, export, import and delete the models in the store of this party.

    Example: flow model list
    """


@model.command("list")
@_model_id()
@options.limit(None, "Maximum number of parts; 1000 by default.")
@options.form()
@with_client
def listed(client: Client, as_json: bool | None, **body: Any) -> None:
    """List models by version, the newest first.

    Example: flow model list
    """
    show_with_jobs(client.post("model/list", given(body)), as_json, print_models)


@model.command("show")
@_parts
@options.form()
@with_client
def show_one(client: Client, as_json: bool | None, **body: Any) -> None:
    """Show the parts of a model: digests, metadata, and the content of those that are JSON.

    Without a number as version, the newest one.

    Example: flow model show --model-id 202601011200000000000
    """
    show_with_jobs(client.post("model/show", given(body)), as_json, print_model)


@model.command()
@_parts
@with_client
def delete(client: Client, **body: Any) -> None:
    """Delete a version of a model, or parts of it, from the store of this party.

    Example: flow model delete --model-id 202601011200000000000 --model-version 0
    """
    show(client.post("model/delete", given(body)))


@model.command()
@options.conf_path(required=False)
@_parts
@options.output_path()
@click.option("--to-database", is_flag=True, hidden=True, help="Not offered: the server says what to use instead.")
@with_client
def export(client: Client, conf_path: str | None, output_path: str | None, to_database: bool, **body: Any) -> None:
    """Export a version of a model, or parts of it, into a zip with digests.

    \b
    Example: flow model export --model-id 202601011200000000000 --model-version 0 -o .
             flow model export -c export.json
    export.json: {"model_id": "guest-9999#host-10000#model", "model_version": "202601011200000000000",
                  "role": "guest", "party_id": 9999, "output_path": "."}
    """
    asked = overlaid(conf_path) if conf_path else {}
    asked |= given({**body, "output_path": str(Path(output_path).absolute()) if output_path else None})
    if to_database:
        show(client.post("model/store", asked))
        return
    folder = Path(asked.get("output_path") or ".").absolute()
    target = folder / f".{datetime.now():%Y%m%d%H%M%S%f}.part"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("wb") as file:
            names: list[str] = []
            answer = client.download("GET", "model/export", asked, file, names.append)
        if answer is not None:
            refuse(answer)
        final = target.replace(folder / (names[0] or "model.zip"))
    finally:
        target.unlink(missing_ok=True)
    print_json({"retcode": 0, "file": str(final), "retmsg": f"download successfully, please check {final}"})


@model.command("import")
@options.conf_path(required=False)
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False), help="The zip that export has written.")
@_parts
@click.option("--from-database", is_flag=True, hidden=True, help="Not offered: the server says what to use instead.")
@with_client
def take(client: Client, conf_path: str | None, file: str | None, from_database: bool, **body: Any) -> None:
    """Import models of this party that export has written. None is overwritten.

    \b
    Example: flow model import --file 202601011200000000000_0.zip
             flow model import -c import.json
    import.json: {"model_id": "...", "model_version": "...", "role": "guest", "party_id": 9999, "file": "model.zip"}
    """
    asked = overlaid(conf_path) if conf_path else {}
    asked |= given({**body, "file": file})
    if from_database:
        show(client.post("model/restore", asked))
        return
    path = asked.pop("file", None)
    if not isinstance(path, str) or not Path(path).is_file():
        raise click.UsageError("Missing option '--file': the zip that flow model export has written.")
    asked.pop("conf_path", None)
    show(client.upload("model/import", asked, MultipartFile(Path(path))))


@model.command()
@_model_id(required=True)
@_model_version(required=True)
@click.option("--cpn-list", help="Tasks to deploy, separated by commas; all that may be by default.")
@click.option("--cpn-path", type=click.Path(exists=True, dir_okay=False), help="A file with these names.")
@click.option("--dsl-path", type=click.Path(exists=True, dir_okay=False), help="The DSL of the prediction, instead.")
@with_client
def deploy(
    client: Client, model_id: str, model_version: str, cpn_list: str | None, cpn_path: str | None, dsl_path: str | None
) -> None:  # fmt: skip
    """Deploy a model: choose tasks for its prediction, under a new version. A job of job_type predict names it.

    \b
    Example: flow model deploy --model-id guest-9999#host-10000#model --model-version 202601011200000000000
    """
    body: dict[str, Any] = {"model_id": model_id, "model_version": model_version}
    if text := cpn_list or (read_text(cpn_path) if cpn_path else ""):
        body["cpn_list"] = [one for one in _SEPARATORS.split(text) if one]
    elif dsl_path:
        body["dsl"] = read_text(dsl_path)
    show(client.post("model/deploy", body))


@model.command("get-model-info")
@_model_id()
@_model_version(required=True)
@options.role()
@options.party_id()
@click.option("--detail", is_flag=True, help="Show all columns.")
@with_client
def get_model_info(client: Client, detail: bool, **body: Any) -> None:
    """Show a model as FATE's client does.

    Example: flow model get-model-info --model-version 202601011200000000000
    """
    columns = (
        "create_date", "role", "party_id", "roles", "model_id", "model_version", "loaded_times", "size", "description",
        "parent", "parent_info",
    )  # fmt: skip
    more = {} if detail else {"query_filters": list(columns)}
    show(client.post("model/query", {**given(body), **more}))


@model.command("get-predict-dsl")
@_model_id(required=True)
@_model_version(required=True)
@options.output_path(required=True)
@with_client
def get_predict_dsl(client: Client, output_path: str, **body: Any) -> None:
    """Write the DSL of the prediction with a deployed model into a file.

    Example: flow model get-predict-dsl --model-id ID --model-version 202601011200000000000 -o .
    """
    _fetch(client, "dsl", output_path, body)


@model.command("get-predict-conf")
@_model_id(required=True)
@_model_version(required=True)
@options.output_path(required=True)
@with_client
def get_predict_conf(client: Client, output_path: str, **body: Any) -> None:
    """Write a conf for a job that predicts with a deployed model into a file; fill in the names of the tables.

    Example: flow model get-predict-conf --model-id ID --model-version 202601011200000000000 -o .
    """
    _fetch(client, "conf", output_path, body)


def _fetch(client: Client, what: str, output_path: str, body: dict[str, Any]) -> None:
    target = folder_in(output_path, f"predict_{what}_{datetime.now():%Y%m%d%H%M%S}.json")
    fetch_file(client, f"model/get/predict/{what}", {**body, "filename": target.name}, target)
    print_json({"retcode": 0, "retmsg": f"Query predict {what} successfully. File path is: {target}"})


@model.command("tag-model")
@options.job_id(required=True)
@click.option("-t", "--tag-name", required=True, help="Name of a tag.")
@click.option("--remove", is_flag=True, help="Remove the tag instead.")
@with_client
def tag_model(client: Client, remove: bool, **body: Any) -> None:
    """Put a tag on the model of a job, or remove it.

    Example: flow model tag-model -j 202601011200000000000 -t good
    """
    show(client.post("model/model_tag/remove" if remove else "model/model_tag/create", body))


@model.command("tag-list")
@options.job_id(required=True)
@with_client
def tag_list(client: Client, **body: Any) -> None:
    """List the tags of the model of a job.

    Example: flow model tag-list -j 202601011200000000000
    """
    show(client.post("model/model_tag/retrieve", body))


@click.group()
def tag() -> None:
    """Make, show, change and remove tags for models.

    Example: flow tag list
    """


_TAG = click.option("-t", "--tag-name", required=True, help="Name of a tag.")


@tag.command()
@_TAG
@click.option("-d", "--tag-desc", help="What it means.")
@with_client
def create(client: Client, **body: Any) -> None:
    """Make a tag.

    Example: flow tag create -t good -d "may be used"
    """
    show(client.post("model/tag/create", given(body)))


@tag.command()
@_TAG
@click.option("--with-model", is_flag=True, help="Name the models that have it, too.")
@with_client
def query(client: Client, **body: Any) -> None:
    """Show a tag.

    Example: flow tag query -t good --with-model
    """
    show(client.post("model/tag/retrieve", body))


@tag.command()
@_TAG
@click.option("--new-tag-name", help="Its new name.")
@click.option("--new-tag-desc", help="Its new description.")
@with_client
def update(client: Client, **body: Any) -> None:
    """Rename a tag, or describe it anew.

    Example: flow tag update -t good --new-tag-name approved
    """
    show(client.post("model/tag/update", given(body)))


@tag.command("delete")
@_TAG
@with_client
def delete_tag(client: Client, **body: Any) -> None:
    """Remove a tag, also from all models.

    Example: flow tag delete -t good
    """
    show(client.post("model/tag/destroy", body))


@tag.command("list")
@options.limit(10, "Maximum number of tags; 10 by default.")
@with_client
def list_tags(client: Client, **body: Any) -> None:
    """List tags by name.

    Example: flow tag list
    """
    show(client.post("model/tag/list", given(body)))
