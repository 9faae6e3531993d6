"""flow init"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fate_flow.cli.connection import settings_file
from fate_flow.cli.connection.profiles import checked_profile, profile_in, settings_path
from fate_flow.cli.connection.settings_file import BadServer
from fate_flow.cli.console.display import print_json, tell
from fate_flow.cli.input.options import given


@click.command()
@click.option(
    "-c", "--server-conf-path", type=click.Path(exists=True, dir_okay=False), help="The server's service_conf.yaml."
)
@click.option("--url", help="URL of the server, such as https://fate.bank.example, instead of --ip and --port.")
@click.option("--ip", help="Address of the server.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the server.")
@click.option("--app-key", help="App key for signing requests.")
@click.option("--secret-key", help="Secret of the app key.")
@click.option("--reset", is_flag=True, help="Delete the stored settings.")
@click.option(
    "--profile", metavar="NAME", callback=checked_profile, help="Store the server under this name, beside the others."
)
def init(reset: bool, **options: Any) -> None:
    """Store which server `flow` talks to, for this user; with --profile, one of several.

    \b
    Example: flow init --ip 127.0.0.1 --port 9380
             flow init -c conf/service_conf.yaml
             flow init --url https://fate.bank.example --app-key KEY --secret-key SECRET
             flow init -c bank.yaml --profile bank      (then: flow --profile bank job list)
    """
    profile = profile_in(click.get_current_context())
    options.pop("profile")
    if reset:
        settings_file.store({"api_version": "v1"}, profile)
        print_json({"retcode": 0, "retmsg": "Fate Flow CLI has been reset successfully. "
                    "Please do initialization again before you using flow CLI v2."})  # fmt: skip
        return
    options = given(options)
    if settings_file.URL in options and {"server_conf_path", "ip", "port"} & options.keys():
        raise click.UsageError("--url: is given instead of -c, --ip and --port, not besides")
    settings = _merged(_known(profile), options)
    has_address = settings.get(settings_file.URL) or (settings.get("ip") and settings.get("port"))
    if not settings.get("server_conf_path") and not has_address:
        print_json({"retcode": 100, "retmsg": "Fate Flow CLI initialization failed. Please provides server "
                    "configuration file path or server http ip address and port information."})  # fmt: skip
        raise SystemExit(2)
    address = settings_file.address_of(settings)
    settings_file.store(settings, profile)
    print_json({"retcode": 0, "retmsg": "Fate Flow CLI has been initialized successfully."})
    flow = f"flow --profile {profile}" if profile else "flow"
    tell(f"{flow} talks to {address.url} from now on; stored in {settings_path(profile)}")


def _known(profile: str) -> dict[str, Any]:
    try:
        return settings_file.load(profile)
    except BadServer as error:
        tell(f"{error.message}; init writes a new file")
        return {}


def _merged(known: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Merge the options into the stored settings. The latest way to name a server wins: an address replaces a file."""
    if "server_conf_path" in options:
        options["server_conf_path"] = str(Path(options["server_conf_path"]).absolute())
        options.setdefault(settings_file.URL, None)
    elif settings_file.URL in options:
        options |= {"server_conf_path": None, "ip": None, "port": None}
    elif "ip" in options or "port" in options:
        options |= {"server_conf_path": None, settings_file.URL: None}
    return {**known, **options, "api_version": "v1"}
