"""What a worker on another host finds in its folder, and which files of the server it needs there.

The documents of the folder name places of the server: paths below its home, and its address on loopback. The other host
gets them with its own places instead. Only fields that the server itself has written are changed, never a text of the
user's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.components.providers.program_order import ORDER
from fate_flow.components.providers.table import PROVIDERS
from fate_flow.components.tables.table_uri import SCHEME, SUFFIX, format_uri
from fate_flow.core.model.artifact import FILE_SCHEME, INDEX
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.program import InputFile
from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text
from fate_flow.engines.local.programs import NotAllowed, source_of
from fate_flow.engines.local.usage import USAGE
from fate_flow.engines.local.worker import ARRIVED, CLAIMED, EXIT, GO, LAUNCH, RESULT, RUNNER, SECOND, STOP, read_json
from fate_flow.engines.staged.places import MOST_FILES, checked_place

CONFIG = "config.yaml"
REDEEMED = "redeemed"            # in the folder of a worker: the agent that has got its token for its claim token
INCOMING = "incoming"            # in the folder of a worker: what the other host has sent so far
ALIVE = "run/alive"              # on the other host: rewritten while the server answers
STATE = frozenset({
    CLAIMED, EXIT, RUNNER, STOP, ARRIVED, GO, USAGE, "placed.json", "submitted.json", "pending.json", "grown.json",
    SECOND, INCOMING, REDEEMED,
})  # fmt: skip
"""Files of a folder that say how the worker is. Only the server writes them here; nothing of them is staged."""


class NotStaged(Exception):
    """A worker cannot run on a host without the home of the server; the text says what to do."""


@dataclass(frozen=True)
class There:
    """The other host: all that the documents name of it."""

    root: str            # absolute
    url: str             # of the exchange
    package: str         # where a program finds our client of the exchange


@dataclass(frozen=True)
class Staged:
    """What one worker gets and may send."""

    documents: Mapping[str, str]                       # texts by place
    sources: Mapping[str, Path]                        # files of the server by place
    grows: Mapping[str, Path]                          # files of the server that grow while the worker runs, by place
    returns: tuple[re.Pattern[str], ...] = field(default=())     # places outside of its folder where it may make files


def staged(folder: Path, home: Path, there: There) -> Staged:
    """Return what the worker of a folder gets.

    Raises NotStaged; OSError, ValueError, LookupError or TypeError for a folder that is not complete."""
    return _Stager(folder, home, there).staged()


class _Stager:
    def __init__(self, folder: Path, home: Path, there: There) -> None:
        self._folder = folder
        self._home = str(home)
        self._there = there
        self._sources: dict[str, Path] = {}
        self._texts: dict[str, str] = {}

    def staged(self) -> Staged:
        launch, config = read_json(self._folder / LAUNCH), _config_in(self._folder / CONFIG)
        if launch is None:
            raise LookupError(f"{LAUNCH} is missing in the folder of the worker")
        self._check(launch, config)
        documents = {LAUNCH: json.dumps(self._launch(launch)), CONFIG: yaml_text(self._config(config))}
        if (order := read_json(self._folder / ORDER)) is not None:
            documents[ORDER] = json.dumps(self._order(order))
        for path in sorted(self._folder.iterdir()):
            is_ours = path.name in STATE or path.name in documents or path.name.startswith(".")
            if not is_ours and path.name != RESULT and path.is_file() and not path.is_symlink():
                documents[path.name] = path.read_text(encoding="utf-8")
        own = self._folder.relative_to(self._home).as_posix()
        texts = {f"{own}/{name}": text for name, text in documents.items()} | self._texts
        grows = {self._place(str(one)): Path(str(one)) for one in self._growing(launch, config)}
        if len(self._sources) > MOST_FILES:
            raise NotStaged(
                f"the inputs have {len(self._sources)} files, and {MOST_FILES} can be sent to a host without the home "
                "of the server: pack them into one, or run the task on the engine local"
            )
        return Staged(texts, self._sources, grows, tuple(self._returns(config)))

    # ------------------------------------------------------------------ what cannot be staged

    def _check(self, launch: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        provider = launch.get("provider")
        if provider not in PROVIDERS.by_name:       # of this package, which the other host has, too
            raise NotStaged(
                f"provider {shown(provider)} has a Python of its own on the server's machine, and this engine shares "
                "no home with it: run its tasks on the engine local"
            )
        info = PROVIDERS.find(str(config.get("component")))
        if info is not None and (info.file_written or info.file_read or info.made_at):
            raise NotStaged(
                f"component {info.module} reads or writes files of the server's machine by name, and this engine "
                "shares no home with it: run its task on the engine local"
            )

    # ------------------------------------------------------------------ documents

    def _launch(self, found: dict[str, Any]) -> dict[str, Any]:
        moved = {**found, "lease_file": f"{self._there.root}/{ALIVE}"}
        for key in ("cwd", "stdout", "stderr"):
            moved[key] = self._moved(found[key])
        if found["way"] == "fork":                     # otherwise it is the program of a user
            moved["argv"] = [self._moved(one) for one in found["argv"]]
        return moved

    def _config(self, found: dict[str, Any]) -> dict[str, Any]:
        moved = deepcopy(found)
        for section in ("input_artifacts", "output_artifacts"):
            for artifact in _artifacts(moved.get(section)):
                if section == "input_artifacts":
                    self._need(str(artifact["uri"]))
                artifact["uri"] = self._moved(str(artifact["uri"]))
        conf = moved["conf"]
        options = conf["computing"]["metadata"]["options"]
        options["data_dir"] = self._moved(options["data_dir"])
        conf["federation"]["metadata"]["exchange"]["url"] = self._there.url
        conf["task_final_meta_path"] = self._moved(conf["task_final_meta_path"])
        for handler in _log_files(conf):
            handler["filename"] = self._moved(handler["filename"])
        info = PROVIDERS.find(str(found.get("component")))
        if info is not None and "table" in info.parameters:          # it reads the table that its parameters name
            named = found["parameters"]["table"]
            data_dir = Path(found["conf"]["computing"]["metadata"]["options"]["data_dir"])
            self._need(format_uri(data_dir, str(named["namespace"]), str(named["name"])))
        return moved

    def _order(self, found: dict[str, Any]) -> dict[str, Any]:
        own = {"FATE_FLOW_EXCHANGE_URL": self._there.url, "FATE_FLOW_PYTHON_PATH": self._there.package}
        own |= {name: self._moved(found["env"][name]) for name in ("FATE_FLOW_TASK_CONFIG", "FATE_FLOW_PEERS_FILE")}
        policy = dict(found["policy"])
        root = str(policy.get("files_root") or "")
        for file in found["files"]:
            if file.get("path"):
                self._sources[f"files/{checked_place(file['path'])}"] = self._below_root(file, root)
        policy["files_root"] = f"{self._there.root}/files" if root else root
        policy["secrets"] = {
            name: {**one, "file": self._secret(name, one)} for name, one in policy["secrets"].items()
            if name in found["secrets"]
        }
        return {**found, "env": {**found["env"], **own}, "policy": policy}

    def _below_root(self, file: Mapping[str, Any], root: str) -> Path:
        try:
            return source_of(InputFile(**file), root)
        except NotAllowed as error:
            raise NotStaged(str(error)) from error

    def _secret(self, name: str, secret: Mapping[str, Any]) -> str:
        self._texts[f"secrets/{name}"] = Path(secret["file"]).read_text(encoding="utf-8")
        return f"{self._there.root}/secrets/{name}"

    # ------------------------------------------------------------------ files

    def _need(self, uri: str) -> None:
        """Take the files of an input along."""
        path = Path(uri.removeprefix(FILE_SCHEME).removeprefix(SCHEME))
        table = path.with_name(f"{path.name}{SUFFIX}")
        if uri.startswith(SCHEME) and table.is_file():
            path = table
        for one in _files_below(path):
            self._sources[self._place(str(one))] = one

    def _growing(self, launch: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
        yield from (launch["stdout"], launch["stderr"])
        yield from (handler["filename"] for handler in _log_files(config["conf"]))

    def _returns(self, config: Mapping[str, Any]) -> Iterator[re.Pattern[str]]:
        """Yield the planned places of outputs outside of the worker's folder."""
        for artifact in _artifacts(config.get("output_artifacts")):
            uri = str(artifact["uri"])
            if uri.startswith(SCHEME):
                place = self._place(uri.removeprefix(SCHEME))
                pattern = re.escape(place)
                for index in (INDEX, INDEX.replace("{", "%7B").replace("}", "%7D")):
                    pattern = pattern.replace(re.escape(index), "[0-9]{1,6}")
                yield re.compile(f"{pattern}(?:{re.escape(SUFFIX)}|/.+)")

    # ------------------------------------------------------------------ places

    def _is_in_home(self, path: str) -> bool:
        return path.startswith(f"{self._home}/")

    def _place(self, path: str) -> str:
        if self._is_in_home(path):
            return path[len(self._home) + 1 :]
        return f"outside/{path.lstrip('/')}"           # a log folder may lie outside of the home

    def _moved(self, text: str) -> str:
        for scheme in (SCHEME, FILE_SCHEME, ""):
            if text.startswith(f"{scheme}/"):
                return f"{scheme}{self._there.root}/{self._place(text[len(scheme):])}"
        return text


def back_home(result: Any, home: Path, root: str) -> Any:
    """Return a result file of the other host with the places of this server."""
    moved = deepcopy(result)
    outputs = moved.get("io_meta", {}).get("outputs", {}) if isinstance(moved, dict) else {}
    for artifact in _artifacts(outputs):
        uri = str(artifact["uri"])
        for scheme in (SCHEME, FILE_SCHEME):
            if uri.startswith(f"{scheme}{root}/"):
                artifact["uri"] = f"{scheme}{home}/{uri[len(scheme) + len(root) + 1:]}"
    return moved


def _artifacts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object with a `uri`, however deep; metadata are the user's."""
    if isinstance(value, list):
        for one in value:
            yield from _artifacts(one)
    if isinstance(value, dict):
        if isinstance(value.get("uri"), str):
            yield value
        for key, one in value.items():
            if key != "metadata":
                yield from _artifacts(one)


def _log_files(conf: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    handlers = conf.get("logger", {}).get("config", {}).get("handlers", {})
    yield from (one for one in handlers.values() if isinstance(one, dict) and "filename" in one)


def _config_in(path: Path) -> dict[str, Any]:
    value = read_yaml_text(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{path.name} is not a mapping of keys")
    return value


def _files_below(path: Path) -> Iterator[Path]:
    """Yield the files of an input. Links and anything else that is no file stay behind."""
    if path.is_symlink() or path.is_file():
        if path.is_file() and not path.is_symlink():
            yield path
        return
    for folder, names, files in os.walk(path):
        names.sort()
        found = (Path(folder) / one for one in sorted(files))
        yield from (one for one in found if one.is_file() and not one.is_symlink())
