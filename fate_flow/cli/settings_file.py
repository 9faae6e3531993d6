"""Where the server is that `flow` talks to: `--server`, or what `flow init` remembered.

The file keeps the genuine client's keys. A server configuration named there is read anew by each command, so that a
port that changes is followed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from fate_flow.engine.worker import write_atomically

KEYS = ("api_version", "ip", "port", "server_conf_path", "app_key", "secret_key")
NOT_INITIALIZED = (
    "which server? Run `flow init --ip 127.0.0.1 --port 9380` or `flow init -c conf/service_conf.yaml` once,"
    " or name it each time: flow --server http://127.0.0.1:9380 ... (or FATE_FLOW_SERVER)"
)


class BadServer(click.ClickException):
    """It is not said, or not rightly, which server to talk to."""

    exit_code = 2


@dataclass(frozen=True)
class Address:
    """A server and, where it wants them, the keys that open it."""

    url: str
    app_key: str = ""
    secret_key: str = ""


def find_server(url: str | None) -> Address:
    """The server of this URL, or the one `flow init` remembered. Raises BadServer."""
    if url:
        return Address(_checked(url))
    return address_of(load())


def address_of(known: Mapping[str, Any]) -> Address:
    """The server that these settings mean. Raises BadServer."""
    if known.get("server_conf_path"):
        return _address_in(Path(str(known["server_conf_path"])))
    if known.get("ip") and known.get("port"):
        return _address(known["ip"], known["port"], known.get("app_key"), known.get("secret_key"))
    raise BadServer(NOT_INITIALIZED)


def load() -> dict[str, Any]:
    """What `flow init` remembered; empty when it never ran."""
    path = file_path()
    return _read(path) if path.exists() else {}


def store(values: Mapping[str, Any]) -> None:
    """Remembers these settings and no others; only this user may read them."""
    path = file_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {key: values.get(key) for key in KEYS}
    write_atomically(path, yaml.safe_dump(document, sort_keys=False), mode=0o600)


def file_path() -> Path:
    named = os.environ.get("FATE_FLOW_SETTINGS")
    return Path(named).expanduser() if named else Path.home() / ".config" / "fate_flow" / "settings.yaml"


def _address_in(conf: Path) -> Address:
    """The address that a server configuration and its `local.` overlay name. Raises BadServer."""
    flow: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    for path in (conf, conf.with_name(f"local.{conf.name}")):
        if path == conf or path.exists():
            document = _read(path)
            flow |= _section(document, "fateflow")
            keys |= _section(_section(document, "authentication"), "client")
    if not flow.get("http_port"):
        raise BadServer(f"{conf}: has no fateflow.http_port")
    if not keys.get("switch"):
        keys = {}
    host = flow.get("host") or "127.0.0.1"
    return _address(host, flow["http_port"], keys.get("http_app_key"), keys.get("http_secret_key"))


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
