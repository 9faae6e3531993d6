"""Job arrays: the runners that one start brings are one sbatch, and which element is which worker.

All elements of an array have one name and one comment. The comment is a folder beside those of the workers, which is
written before sbatch: it has a link for each element, such as `2 -> ../WORKER`. So whoever lists the array finds each
worker, and what Slurm says of an element is in the folder of its worker, because `--output` leads through the link.
What an element executes is in the script, which Slurm keeps: it needs nothing but its number.

Elements that wait are one record of Slurm until each begins. A scancel with any filter, such as a name, takes such a
record as a whole, whichever element it was asked for. So one that waits is named by its number alone, `17_3`, just
after a listing has shown that this is its array; one that has begun by its number and the name of its array. When all
that wait are cancelled at once, the record stays, without the numbers of its elements.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fate_flow.engines.local.worker import sync_folder
from fate_flow.engines.placed.cluster import Listed, Stage

_NAME = "array-"                # of its folder; no id of a worker begins so
_OWN = """\
eval "{name}=\\${name}_$SLURM_ARRAY_TASK_ID"
export {name}
i=0
while [ "$i" -lt {count} ]; do unset "{name}_$i"; i=$((i + 1)); done
"""
_MOST = 1000                    # elements; what Slurm takes by default (MaxArraySize)


def script_of(commands: Sequence[Sequence[str]], secrets: Iterable[str] = ()) -> str:
    """Return the script of an array whose elements execute these commands, by their numbers.

    `secrets`: the names of the variables of `numbered`, of which each command has its own alone."""
    own = "".join(_OWN.format(name=one, count=len(commands)) for one in secrets)
    cases = (f"{number}) exec {shlex.join(argv)} ;;\n" for number, argv in enumerate(commands))
    return f'#!/bin/sh\n{own}case "$SLURM_ARRAY_TASK_ID" in\n{"".join(cases)}esac\n'


def numbered(secrets: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables of an array whose elements have these, in the order of their numbers: all elements of an
    array have one environment."""
    return {f"{name}_{number}": value for number, one in enumerate(secrets) for name, value in one.items()}


@dataclass
class Arrays:
    """What one process knows of arrays. One thread uses it."""

    most: int = _MOST           # elements of one array, as far as sbatch has said
    has_looked: bool = False    # for a worker that the last listing that was due has not shown
    _workers: dict[Path, Path] = field(default_factory=dict)             # their folders, by the link
    _selected: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of scancel, by name; of the last listing

    def write(self, folders: Sequence[Path]) -> Path:
        """Write the list of a new array of these workers, whose folders have one parent; return its folder.

        Raises OSError."""
        folder = folders[0].parent / f"{_NAME}{secrets.token_hex(12)}"
        folder.mkdir()
        try:
            for number, one in enumerate(folders):
                (folder / str(number)).symlink_to(Path("..", one.name), target_is_directory=True)
            for changed in (folder, folder.parent):     # after a power cut, no element may run that nobody can name
                sync_folder(changed)
        except OSError:
            self.remove(folder)
            raise
        return folder

    def remove(self, folder: Path) -> None:
        """Remove the list of an array that is not in Slurm."""
        shutil.rmtree(folder, ignore_errors=True)

    def workers(self, prefix: str, listed: Sequence[tuple[str, Listed]]) -> tuple[Listed, ...]:
        """Return a listing in which each element of an array has the name and the folder of its worker.

        `listed`: each job with its number. Raises OSError if a list is there and cannot be read."""
        known, self._workers, self._selected = self._workers, {}, {}
        found, ended = [], []
        for number, one in listed:
            element = number.partition("_")[2]
            if not Path(one.folder).name.startswith(_NAME):
                self._selected[one.name] = _named(one.name)
                found.append(one)
            elif not element and one.stage is Stage.ENDED:
                ended.append(one)
            elif element.isdecimal() and (worker := self._worker(Path(one.folder, element), known)) is not None:
                name = f"{prefix}{worker.name}"
                if one.stage is not Stage.ENDED:
                    is_waiting = one.stage is Stage.PENDING
                    self._selected[name] = (number,) if is_waiting else (*_named(one.name), number)
                found.append(replace(one, name=name, folder=str(worker)))
            else:
                found.append(_of_nobody(one))
        return (*found, *(one for record in ended for one in self._ended(prefix, record, known)))

    def _ended(self, prefix: str, record: Listed, known: dict[Path, Path]) -> Iterator[Listed]:
        """Yield the elements that have ended without having begun: those that are listed nowhere else."""
        try:
            links = sorted(Path(record.folder).iterdir())
        except FileNotFoundError:
            return
        for link in links:
            if link not in self._workers and (worker := self._worker(link, known)) is not None:
                yield replace(record, name=f"{prefix}{worker.name}", folder=str(worker))

    def _worker(self, link: Path, known: dict[Path, Path]) -> Path | None:
        """Return the folder of the worker of an element; None if it is not in the list, or the list was removed."""
        worker = known.get(link)
        if worker is None:
            try:
                up, _, name = os.readlink(link).partition("/")
            except FileNotFoundError:
                return None
            if up != ".." or not name or "/" in name:
                return None
            worker = link.parent.parent / name
        self._workers[link] = worker
        return worker

    def is_listed(self, name: str) -> bool:
        """Return whether the last listing has shown the job of a worker, before its end."""
        return name in self._selected

    def selected(self, name: str) -> tuple[str, ...]:
        """Return what tells scancel the job of a worker, as of the last listing."""
        return self._selected.get(name, _named(name))


def _named(name: str) -> tuple[str, ...]:
    return f"--user={os.getuid()}", f"--name={name}"


def _of_nobody(one: Listed) -> Listed:
    """Return an element whose worker nobody knows. Without its list, the whole job was removed, and nobody wants the
    array; else nothing is decided."""
    return one if not Path(one.folder).exists() else replace(one, stage=Stage.UNKNOWN)
