"""The server that `flow` talks to: `--server`, or the one that `flow init` stored.

The file has the same keys as the genuine client's, and `url` if it was given. If it names a server configuration, each
command reads that file again, and so follows a changed port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from fate_flow.cli.connection.local_server import keys_of_local_server
from fate_flow.cli.connection.profiles import known_profiles, settings_path
from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.local.worker import write_atomically
from fate_flow.settings.client_keys import ClientKeys, choose_client_keys

KEYS = ("api_version", "ip", "port", "server_conf_path", "app_key", "secret_key")
URL = "url"
NOT_INITIALIZED = (
    "no server is configured: run `flow init --ip 127.0.0.1 --port 9380` or `flow init -c conf/service_conf.yaml` once,"
    " or name the server each time: flow --server http://127.0.0.1:9380 ... (or FATE_FLOW_SERVER)"
)


class BadServer(click.ClickException):
    """No server is configured, or its settings are invalid."""

    exit_code = 2


@dataclass(frozen=True)
class Address:
    """The address of a server and, if it requires them, the keys for signing requests."""

    url: str
    app_key: str = ""
    secret_key: str = ""


def server_of(root: click.Context) -> Address:
    """Return the server that the options of `flow` mean; --profile takes precedence over FATE_FLOW_SERVER.

    Raise BadServer."""
    url, profile = root.params.get("server"), root.params.get("profile") or ""
    typed = click.core.ParameterSource.COMMANDLINE
    if profile and root.get_parameter_source("profile") is typed is not root.get_parameter_source("server"):
        url = None
    return find_server(url, profile)


def find_server(url: str | None, profile: str = "") -> Address:
    """Return the server of this URL, or the one that `flow init` stored for this profile. Raise BadServer."""
    if url:
        return _with_keys(Address(_checked(url)))
    if profile and not settings_path(profile).exists():
        known = f"; existing profiles: {', '.join(known_profiles())}" if known_profiles() else ""
        raise BadServer(f"there is no profile {profile}: create it with flow --profile {profile} init ...{known}")
    return address_of(load(profile))


def address_of(known: Mapping[str, Any]) -> Address:
    """Return the server that these settings mean. Raise BadServer."""
    if known.get("server_conf_path"):
        return _address_in(Path(str(known["server_conf_path"])))
    keys = (known.get("app_key"), known.get("secret_key"))
    if known.get(URL):
        return _with_keys(Address(_checked(str(known[URL])), *(str(one or "") for one in keys)))
    if known.get("ip") and known.get("port"):
        return _with_keys(_address(known["ip"], known["port"], *keys))
    raise BadServer(NOT_INITIALIZED)


def load(profile: str = "") -> dict[str, Any]:
    """Return the settings that `flow init` stored; {} if it never ran."""
    path = settings_path(profile)
    return _read(path) if path.exists() else {}


def store(values: Mapping[str, Any], profile: str = "") -> None:
    """Write the file with these settings alone; only this user may read it."""
    path = settings_path(profile)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {key: values.get(key) for key in KEYS} | ({URL: values[URL]} if values.get(URL) else {})
    write_atomically(path, yaml.safe_dump(document, sort_keys=False), mode=0o600)


def _address_in(conf: Path) -> Address:
    """Return the address from a server configuration and its `local.` overlay. Raise BadServer."""
    flow: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    home: object = ".."
    shared: object = ""
    for path in (conf, conf.with_name(f"local.{conf.name}")):
        if path == conf or path.exists():
            document = _read(path)
            flow |= _section(document, "fateflow")
            keys |= _section(_section(document, "authentication"), "client")
            shared = _section(document, "servers").get("shared_home") or shared
            home = document.get("home") or home
    if not flow.get("http_port"):
        raise BadServer(f"{conf}: has no fateflow.http_port")
    found = _keys_in(keys, conf.absolute().parent / Path(str(shared or home)).expanduser())
    host = flow.get("host") or "127.0.0.1"
    return _address(host, flow["http_port"], *((found.app_key, found.secret_key) if found else ("", "")))


def _keys_in(section: Mapping[str, Any], home: Path) -> ClientKeys | None:
    """Return the keys that a server with this section in its configuration requires. Raise BadServer."""
    switch = section["switch"] if isinstance(section.get("switch"), bool) else None
    given = (str(section.get(key) or "") for key in ("http_app_key", "http_secret_key"))
    try:
        return choose_client_keys(home, switch, *given)[0]
    except BadSettings as error:
        raise BadServer(_unreadable(error)) from error


def _with_keys(address: Address) -> Address:
    """Add the keys from the server's home if it is on this machine and no keys are given. Raise BadServer."""
    if address.app_key or address.secret_key:
        return address
    try:
        found = keys_of_local_server(address.url)
    except BadSettings as error:
        raise BadServer(_unreadable(error)) from error
    return replace(address, app_key=found.app_key, secret_key=found.secret_key) if found else address


def _unreadable(error: BadSettings) -> str:
    return (
        f"{error.message}; run flow as the user of the server, or give the keys: "
        "flow init --app-key KEY --secret-key SECRET"
    )


def _address(host: Any, port: Any, app_key: Any, secret_key: Any) -> Address:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(host), str(host))  # noqa: S104
    name = f"[{name}]" if ":" in name else name
    return Address(_checked(f"http://{name}:{port}"), str(app_key or ""), str(secret_key or ""))


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise BadServer(f"{url!r} is not the address of a server, such as http://127.0.0.1:9380")
    return url.rstrip("/")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadServer(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadServer(f"{path}: is not YAML: {error}") from error
    if document is not None and not isinstance(document, dict):
        raise BadServer(f"{path}: is not a mapping of keys")
    return document or {}


def _section(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    section = document.get(key)
    return section if isinstance(section, dict) else {}
