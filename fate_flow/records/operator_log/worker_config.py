"""The logging configuration of a worker (logs-v1, "Party and component dirs"). It uses only the standard library,
because a worker need not import this package.

INFO.log, WARNING.log and ERROR.log (and DEBUG.log at DEBUG) contain their level and all above; stat.log contains
everything. The party's folder repeats the level files for all components. Several workers write there at the same time,
so workers do not rotate: two processes that rename the same file would lose a day. The server renames files that are
too large (`log_keeper.py`). `WatchedFileHandler` follows a file that another process renamed or removed, but raises if
it cannot open the file again; built-in components use their own handler instead (`components/base/log_file.py`). The
logs of a worker are kept as long as its job's folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fate_flow.records.operator_log.format import Level

LINE_FORMAT = "[%(levelname)s] [%(asctime)s] [%(process)s:%(thread)s] - %(filename)s[line:%(lineno)s]: %(message)s"


def worker_log_folders(job_id: str, role: str, party_id: str, component: str, root: Path) -> tuple[Path, Path]:
    """Return the folders of the party and of the component; the launch of the worker creates them."""
    for name in (job_id, role, party_id, component):
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"{name!r} cannot name a log folder")
    party = Path(root) / job_id / role / party_id
    return party, party / component


def worker_logging_config(
    job_id: str, role: str, party_id: str, component: str, root: Path, level: str = "DEBUG",
) -> dict[str, Any]:
    """Return a `logging.config.dictConfig` for one worker; files are opened at their first line."""
    party, own = worker_log_folders(job_id, role, party_id, component, root)
    levels = [each for each in Level if each >= Level[level]]
    handlers = {f"component_{each.name}": _handler(own, each.name, each.name) for each in levels}
    handlers |= {f"party_{each.name}": _handler(party, each.name, each.name) for each in levels}
    handlers["stat"] = _handler(own, "stat", level)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"fate": {"format": LINE_FORMAT}},
        "handlers": handlers,
        "root": {"level": level, "handlers": list(handlers)},
    }


def _handler(folder: Path, stem: str, level: str) -> dict[str, Any]:
    return {
        "class": "logging.handlers.WatchedFileHandler",
        "filename": str(folder / f"{stem}.log"),
        "level": level,
        "formatter": "fate",
        "encoding": "utf-8",
        "errors": "backslashreplace",
        "delay": True,
    }
