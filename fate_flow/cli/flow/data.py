"""flow data"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.display import print_json, tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.input import options
from fate_flow.cli.input.options import given, with_client
from fate_flow.cli.input.submit_files import BadFile, overlaid
from fate_flow.cli.output.bar import bar
from fate_flow.cli.output.lists_of_jobs import print_uploads
from fate_flow.cli.output.named_jobs import show_with_jobs
from fate_flow.cli.output.upload_body import MultipartFile
from fate_flow.core.text.phrases import counted

_SOME_COLUMNS = 20            # the message names at most this many


@click.group()
def data() -> None:
    """Upload data into this party's tables, and write tables elsewhere.

    Example: flow data upload -c upload.json
    """


@data.command()
@options.conf_path()
@click.option("--verbose", is_flag=True, help="Sent to the server.")
@click.option("--drop", is_flag=True, help="Replace an existing table, which is refused otherwise.")
@options.watched()
@with_client
def upload(client: Client, conf_path: str, verbose: bool, drop: bool, is_watched: bool) -> None:
    """Upload a CSV file as a table.

    The file is on this machine; with "use_local_data": 0 in the configuration, it is on the server's machine. If
    several rows have the same id, the last one is kept; with "duplicate_ids": "refuse", the file is refused. For
    components of FATE 2, "meta" says what the columns are, such as {"label_name": "y", "dtype": "float64"}.

    \b
    Example: flow data upload -c upload.json --drop
    upload.json: {"file": "site_a.csv", "head": 1, "partition": 2, "id_delimiter": ",",
                  "namespace": "demo", "table_name": "site_a"}
    """
    conf = overlaid(conf_path, drop=int(drop), verbose=int(verbose))
    if conf.get("use_local_data", 1):
        answer = _send_file(client, conf, _file_of(conf, conf_path))
    else:
        answer = client.submit("data/upload", conf)
    _show_started(client, answer, is_watched)
    if is_watched:
        _tell_table(client, answer)


@data.command()
@options.conf_path()
@options.watched()
@with_client
def download(client: Client, conf_path: str, is_watched: bool) -> None:
    """Write a table to a file on the server's machine.

    \b
    Example: flow data download -c download.json
    download.json: {"namespace": "demo", "table_name": "site_a", "output_path": "/data/site_a.csv"}
    """
    _show_started(client, client.submit("data/download", overlaid(conf_path)), is_watched)


@data.command()
@options.conf_path()
@click.option("--drop", is_flag=True, help="Replace an existing table or file, which is refused otherwise.")
@options.watched()
@with_client
def writer(client: Client, conf_path: str, drop: bool, is_watched: bool) -> None:
    """Write a table to another table, a CSV file on the server's machine, or MySQL.

    \b
    Example: flow data writer -c writer.json
    writer.json: {"namespace": "demo", "table_name": "site_a", "output_namespace": "copies", "output_name": "site_a",
                  "storage_engine": "PATH", "address": {"path": "/data/site_a.csv"}}
    or to a MySQL server, with a connector of the server's configuration:
                 {"namespace": "demo", "table_name": "site_a", "storage_engine": "MYSQL",
                  "address": {"connector_name": "warehouse", "name": "site_a"}}
    """
    body = overlaid(conf_path, **({"drop": 1} if drop else {}))
    _show_started(client, client.submit("data/writer", body), is_watched)


@data.command("upload-history")
@options.limit()
@options.job_id()
@options.form()
@with_client
def upload_history(client: Client, as_json: bool | None, **body: Any) -> None:
    """List the uploads, newest first.

    Example: flow data upload-history -l 20
    """
    show_with_jobs(client.post("data/upload/history", given(body)), as_json, print_uploads)


def _show_started(client: Client, answer: ServerReply, is_watched: bool) -> None:
    """Print the answer like `show`. Its retcode is 0 even if the server refused the job: then `data.code` is not 0."""
    from fate_flow.cli.output.watch import follow_submitted, show_submitted

    is_refused = isinstance(answer.data, Mapping) and bool(answer.data.get("code"))
    show_submitted(answer, is_watched and not is_refused)
    if is_refused:
        raise SystemExit(1)
    if is_watched:
        from fate_flow.cli.output.progress import open_screen

        follow_submitted(client, answer, open_screen())


def _tell_table(client: Client, uploaded: ServerReply) -> None:
    """Print what an upload stored: the number of rows, and the columns."""
    body = {key: uploaded.data.get(key) for key in ("namespace", "table_name")}
    answer = client.post("table/table_info", body)
    found = answer.data if answer.is_success and isinstance(answer.data, Mapping) else {}
    schema = found.get("schema")
    if not isinstance(schema, Mapping):
        tell(f"cannot show the uploaded table: {answer.message}")
        return
    header = [str(name) for name in schema.get("header") or ()]
    names = ", ".join(header[:_SOME_COLUMNS]) + (", ..." if len(header) > _SOME_COLUMNS else "")
    tell(
        f"table {body['table_name']} in namespace {body['namespace']}: {counted(found.get('count') or 0, 'row')}; "
        f"id {schema.get('sid')}; columns ({len(header)}): {names}"
    )
    if replaced := found.get("replaced_rows"):
        tell(f"{counted(replaced, 'row')} of the file replaced by a later row with the same id")


def _send_file(client: Client, conf: Mapping[str, Any], path: Path) -> ServerReply:
    try:
        body = MultipartFile(path)
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror}") from error
    with bar(path.name, body.size) as advance:
        body.on_sent = advance
        return client.upload("data/upload", conf, body)


def _file_of(conf: Mapping[str, Any], conf_path: str) -> Path:
    """Return the file that a configuration names: in the current folder, else in that of the configuration.

    Raise BadFile."""
    name = conf.get("file")
    if not isinstance(name, str) or not name:
        raise BadFile(f"{conf_path}: file: is missing; it names the CSV file to upload")
    here, there = Path.cwd() / name, Path(conf_path).absolute().parent / name
    for path in (here, there):
        if path.is_file():
            return path
    print_json({
        "retcode": 100,
        "retmsg": "The file is obtained from the fate flow client machine, but it does not exist, "
        f"please check the path: {here}",
    })
    raise BadFile(f"{conf_path}: file: there is no file {here}" + (f" and no {there}" if there != here else ""))
