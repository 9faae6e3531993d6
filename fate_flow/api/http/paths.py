"""Files of this machine that a client may name: only those below folders that the operator has opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import shown
from fate_flow.core.model.errors import BadDocument, BadRequest
from fate_flow.core.model.modules import ModuleInfo, OpensFiles
from fate_flow.core.model.spec import JobSpec
from fate_flow.settings.settings import Settings

EXAMPLES, DOWNLOADS = "examples", "downloads"
_SHOWN_LENGTH = 300          # long, since the end of a path identifies it


def readable_file(settings: Settings, text: str, key: str) -> Path:
    """Return the path of a non-empty file that an upload may read. Raise BadRequest."""
    path = _below((*settings.data_roots, settings.shared / EXAMPLES), text, key, settings.shared)
    if not path.is_file():
        raise BadRequest(f"{key}: {shown(text, _SHOWN_LENGTH)} does not exist on the server, or is not a file")
    if not path.stat().st_size:
        raise BadRequest(f"{key}: {shown(text, _SHOWN_LENGTH)} is empty")
    return path


def writable_file(settings: Settings, text: str, key: str) -> Path:
    """Return a path that a download may write; not in the home itself, which has the database and the logs.

    Raise BadRequest."""
    path = _below((*settings.data_roots, settings.shared / DOWNLOADS), text, key, settings.shared)
    if path.is_dir():
        raise BadRequest(f"{key}: {shown(text, _SHOWN_LENGTH)} is a folder, the path of a file is needed")
    return path


def check_opened(settings: Settings, text: str, key: str) -> None:
    """Check a path of such a file, or of a folder with such files. Raise BadRequest."""
    _below((*settings.data_roots, settings.shared / EXAMPLES, settings.shared / DOWNLOADS), text, key, settings.shared)


def check_server(settings: Settings, name: str, key: str) -> None:
    """Check the name of a connector that the operator configured. Raise BadRequest."""
    if name not in settings.connectors:
        known = ", ".join(sorted(settings.connectors)) or "none"
        raise BadRequest(f"{key}: {shown(name)} is not one of connectors in service_conf.yaml: {known}")


def check_paths(settings: Settings, modules: Mapping[str, ModuleInfo], spec: JobSpec) -> None:
    """Check the files and servers that a client's job reads and writes here. Raise BadDocument.

    A component opens every path in its parameters. Only components of local jobs have paths, and those jobs come from
    our own clients."""
    for task in spec.tasks.values():
        module = modules.get(task.module)
        if not isinstance(module, OpensFiles):
            continue
        for party in task.parties:
            if party not in task.passed_at:
                try:
                    _check_task(settings, module, task.parameters.get(party, {}))
                except BadRequest as error:
                    raise BadDocument(spec.paths.of_parameters(task.name, str(party)), error.message) from error


def _check_task(settings: Settings, module: OpensFiles, parameters: Mapping[str, Any]) -> None:
    """Required parameters were checked before. Raise BadRequest."""
    if module.uses_connector and parameters.get("connector") is not None:
        check_server(settings, str(parameters["connector"]), "connector")
    for key, check in ((module.file_read, readable_file), (module.file_written, writable_file)):
        if key and parameters.get(key) is not None:
            text = str(parameters[key])
            if not Path(text).is_absolute():     # a worker runs in a folder of its own
                raise BadRequest(f"{key}: {shown(text, _SHOWN_LENGTH)} is not an absolute path")
            if parameters.get("remove_source"):
                raise BadRequest("remove_source: only the server itself may set it, to remove an uploaded file")
            check(settings, text, key)


def _below(roots: tuple[Path, ...], text: str, key: str, base: Path) -> Path:
    """Return the path, relative to `base`, with links resolved. Raise BadRequest unless it is below a root."""
    try:
        path = (base / text).resolve()
    except (OSError, ValueError, RuntimeError) as error:       # a NUL, a loop of links
        raise BadRequest(f"{key}: {shown(text, _SHOWN_LENGTH)} is not a path") from error
    if text and any(path.is_relative_to(root.resolve()) for root in roots):
        return path
    listed = ", ".join(str(root) for root in roots)
    raise BadRequest(
        f"{key}: {shown(text, _SHOWN_LENGTH)} is not below {listed}; "
        "fateflow.data_roots in service_conf.yaml opens other folders"
    )
