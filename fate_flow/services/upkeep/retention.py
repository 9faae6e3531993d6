"""Retention: remove data of ended jobs after the time in the settings, and clean up after crashes.

A pass finds its work in the rows and on the disk, so an interrupted pass is simply repeated. It works in small pieces
with their own transactions, and removes only what is over. This is checked right before, and for rows once more in the
transaction that removes them. The rows of a job are removed last, so that the next pass finds what a crash has left.
Logs and output artifacts have limits of their own, whether their job is still known or not.

The pieces of a pass are values (`Piece`), so that `fate_flow admin clean --dry-run` shows exactly what would be done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from fate_flow.core.model.artifact import JSON_MODEL, file_at
from fate_flow.core.model.errors import BadRequest, Conflict, JobNotFound, StorageUnavailable
from fate_flow.core.model.grammar import check_job_id
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.core.record.segment import Segment
from fate_flow.jobspec.fate_v1.reader import effective_document
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.kind import ArtifactKind, Kept
from fate_flow.services.artifacts.table_files import TableFile
from fate_flow.services.context.documents import spec_in_row
from fate_flow.services.context.effects import WriteConfs, carry_out, remove_model_of_no_row
from fate_flow.services.context.ports import Context, Keep
from fate_flow.services.upkeep.record_keeper import RecordKeeper
from fate_flow.store.contract.bindings import OUTPUT
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Document, Scope, StoredModel

log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 20
_INTO_FILE, _TEXTS = "rows of the record, into a file:", "texts beside the record:"
_LEFT_OVER_SECONDS = 3_600.0      # cleaning up after a crash is not urgent, and it has to read folders
_UPLOAD_GRACE = 3_600_000         # ms; the row of the job that uploads the file may come later
_MODEL_GRACE = 3_600_000          # ms; the row of a model comes after its file
_TABLE_GRACE = 3_600_000          # ms; far more than from the last look at a job to the removal of its files
_LOOKED_UP_AT_ONCE = 200          # tables, in one transaction: nearly all have a row


@dataclass(frozen=True)
class Piece:
    """One removal or repair: its kind, its name, and the function that does it and returns whether it did."""

    what: str
    name: str
    do: Callable[[], bool]

    def __str__(self) -> str:
        return f"{self.what} {self.name}"


Pieces = Iterator[list[Piece]]


class RetentionSweeper:
    """Runs passes over all data of ended jobs, a few pieces at a time."""

    def __init__(
        self, context: Context, keep: Keep, record: RecordKeeper | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`record`: None: the record stays as it is."""
        self._context, self._keep, self._record, self._monotonic = context, keep, record, monotonic
        self._pass: Pieces | None = None
        self._left_over_done: float | None = None           # when the last complete clean-up ended
        self._mentioned: dict[tuple[str, str], frozenset[str]] = {}     # by open job and digest: texts in its conf

    def step(self) -> bool:
        """Do a few pieces; False at the end of a pass. Raises StorageFailed; the next step begins a new pass then."""
        if self._pass is None:
            self._pass = self._all_due()
        try:
            pieces = next(self._pass, None)
            for piece in pieces or ():
                self.do(piece)
        except Exception:
            self._pass = None
            raise
        if pieces is None:
            self._pass = None
        return pieces is not None

    def do(self, piece: Piece) -> bool:
        """Do a piece, and return whether it was done. A failure is logged and left for the next pass."""
        try:
            done = piece.do()
        except StorageUnavailable:
            raise
        except Exception:
            log.exception("%s: could not be tidied up", piece)
            return False
        if done:
            self._context.record.emit(Event.DETECT_NOTE, text=f"tidied up: {piece}")
        return done

    def _all_due(self) -> Pieces:
        done = self._left_over_done
        is_due = done is None or self._monotonic() - done >= _LEFT_OVER_SECONDS
        if is_due:
            yield from self.left_over()
            yield from self.old_logs()
            self._left_over_done = self._monotonic()        # set at the end, so an interrupted pass repeats it
        yield from self.logs_beyond(measure_all=is_due)
        yield from self.old_artifacts()
        yield from self.jobs_past_ttl()
        yield from self.old_jobs()
        yield from self.old_record()
        if self._record is not None:
            self._record.check_some()
            self._record.check_rows()

    # ------------------------------------------------------------------ old data

    def old_jobs(self) -> Pieces:
        """Yield jobs that ended too long ago, or that are beyond the number of ended jobs to keep."""
        before = self._context.read(self._jobs_kept_from)
        after = (0, "")
        while found := self._context.read(_bound(lambda tx, after: tx.ended_jobs(before, after, _AT_ONCE), after)):
            after = found[-1]
            yield [self.job(job_id) for job_id in self._unread(dict.fromkeys(job_id for _, job_id in found))]

    def jobs_past_ttl(self) -> Pieces:
        """Yield jobs whose own time to live after their end has passed."""
        now, least, after = self._context.clock(), self._context.ceilings.ttl_of(0), ""
        while found := self._context.read(
            _bound(lambda tx, after: tx.jobs_past_ttl(now, least, after, _AT_ONCE), after)
        ):
            after = found[-1]
            unread = self._unread(found)
            yield [Piece("job past its ttl", job_id, _bound(self._remove_all, job_id)) for job_id in unread]

    def _remove_all(self, job_id: str) -> bool:
        """Remove a job with its artifacts and logs; stop at the first artifact that is still read."""
        context = self._context
        if context.read(lambda tx: tx.is_open(job_id)):
            return False
        for kind in context.kinds.values():
            for kept in context.read(_bound(lambda tx, kind: kind.made(tx, Scope(job_id)), kind)):
                if not self._remove_artifact(kind, kept):
                    return False
        context.files.remove_logs(job_id)
        return self._remove_job(job_id)

    def _unread(self, job_ids: Iterable[str]) -> list[str]:
        """Return the jobs that no unfinished job names; a Reader could still look for their outputs."""
        named = tuple(self._open_jobs().values())
        return [job_id for job_id in job_ids if not any(job_id in texts for texts in named)]

    def _jobs_kept_from(self, tx: Transaction) -> int:
        keep = self._keep
        by_age = self._context.clock() - keep.finished_jobs if keep.finished_jobs else 0
        by_number = tx.end_of_newest(keep.most_finished_jobs) if keep.most_finished_jobs else 0
        return max(by_age, by_number)

    def job(self, job_id: str) -> Piece:
        """Return the piece that removes an ended job: its folders and messages, then its rows."""
        return Piece("job", job_id, lambda: self._remove_job(job_id))

    def _remove_job(self, job_id: str) -> bool:
        context = self._context
        if context.read(lambda tx: tx.is_open(job_id)):
            return False
        context.files.remove_job(job_id)
        context.exchange.purge(job_id)
        return context.write(lambda tx: tx.forget_ended(job_id), is_repeatable=True)

    def whole_job(self, job_id: str) -> tuple[Piece, ...]:
        """Return the pieces that remove an ended job of any age with its logs, without what it keeps elsewhere.

        Raises JobNotFound; Conflict if a part of the job still goes on."""
        jobs, is_open = self._context.read(lambda tx: (tx.jobs_here(job_id), tx.is_open(job_id)))
        if not jobs:
            raise JobNotFound(f"job {job_id} is not known here")
        if is_open:
            raise Conflict(
                f"job {job_id} is {jobs[0].status.value} and something of it still goes on: a row that is not final, a "
                "worker, or a command to another party; stop it, and wait until it is over"
            )
        return (self.job(job_id), self._log(job_id))

    def old_logs(self) -> Pieces:
        """Yield job logs that were last written too long ago, whether the job is still known or not."""
        if self._keep.job_logs:
            before = self._context.clock() - self._keep.job_logs
            for some in _few(self._context.files.logs_before(before)):
                yield [self._log(job_id) for job_id in some]

    def logs_beyond(self, measure_all: bool = True) -> Pieces:
        """Yield logs of ended jobs, oldest first, while the logs of all jobs together take too much space.

        Every pass does this: at five jobs a second the logs grow by gigabytes in an hour."""
        if self._keep.job_logs_bytes:
            for some in _few(self._context.files.logs_beyond(self._keep.job_logs_bytes, measure_all)):
                yield [self._log(job_id) for job_id in some]

    def _log(self, job_id: str) -> Piece:
        return Piece("logs of job", job_id, lambda: self._remove_if_over(job_id, self._context.files.remove_logs))

    def _remove_if_over(self, job_id: str, remove: Callable[[str], None]) -> bool:
        if self._context.read(lambda tx: tx.is_open(job_id)):
            return False
        remove(job_id)
        return True

    def old_record(self) -> Pieces:
        """Yield segments of the record whose rows move into files, the next one of each log and then on, and texts and
        salts to erase. A round that has moved nothing, since the disk is full for example, is the last one."""
        keeper, before = self._record, frozenset[Segment]()
        while keeper is not None and (due := frozenset(keeper.due())) and due != before:
            before = due
            yield [Piece(_INTO_FILE, str(one), _bound(keeper.move, one)) for one in due]
        if keeper is not None:
            texts = [Piece(_TEXTS, str(one), _bound(keeper.erase, one)) for one in keeper.with_old_texts()]
            yield texts + [
                Piece(_TEXTS, f"{log_name}, epoch {epoch}, in rows", _bound(keeper.erase_in_rows, log_name, epoch))
                for log_name, epoch in keeper.rows_with_old_texts()
            ]

    def old_artifacts(self) -> Pieces:
        """Yield output artifacts that are too old; removal skips those that an unfinished job names."""
        for name, kind in self._context.kinds.items():
            if kept_for := self._keep.outputs.get(name, 0):
                yield from self._older(kind, self._context.clock() - kept_for)

    def _older(self, kind: ArtifactKind, before: int) -> Pieces:
        after: tuple[Any, ...] | None = None
        while found := self._context.read(_bound(lambda tx, after: kind.older(tx, before, after, _AT_ONCE), after)):
            after = found[-1].age
            yield [
                Piece(f"output {kind.noun}", one.name, _bound(self._remove_artifact, kind, one)) for one in found
            ]

    def _remove_artifact(self, kind: ArtifactKind, kept: Kept) -> bool:
        context = self._context
        is_open = context.read(lambda tx: tx.is_open(kept.job_id))
        if is_open or any(_is_named(kept, texts) for texts in self._open_jobs().values()):
            return False
        context.files.remove_artifact(kept.artifact)
        return context.write(lambda tx: kind.forget(tx, kept), is_repeatable=True)

    def _open_jobs(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return all texts in the configuration of each unfinished job; they include its tables and files."""
        open_jobs = self._context.read(
            lambda tx: {(job_id, _digest_of(tx, job_id)) for job_id in {key.job_id for key in tx.open_seats()}}
        )
        for gone in self._mentioned.keys() - open_jobs:
            del self._mentioned[gone]
        for job in open_jobs - self._mentioned.keys():
            document = self._context.read(_bound(lambda tx, job_id: tx.document(job_id), job[0]))
            if document is not None:
                self._mentioned[job] = frozenset(_texts(document.runtime_conf))
        return self._mentioned

    # ------------------------------------------------------------------ after a crash

    def left_over(self) -> Pieces:
        """Yield repairs after a crash: folders and uploads without a job, files of models and tables without a row,
        missing files of unfinished jobs. Models are never removed otherwise. Files of tables are also left by shares
        that have failed, since these report nothing.

        Left-over messages are removed by every poll (`Maintenance`)."""
        files = self._context.files
        for some in _few(files.jobs_on_disk()):
            yield [Piece("folder of no job", job_id, _bound(self._remove_folder, job_id)) for job_id in some]
        for paths in _few(files.uploads_before(self._context.clock() - _UPLOAD_GRACE)):
            yield [Piece("upload of no job", path, _bound(self._drop_upload, path)) for path in paths]
        for models in _few(self._context.models.kept_before(self._context.clock() - _MODEL_GRACE)):
            yield [Piece("model of no row", f"{of}, {at}", _bound(self._drop_model, of, at)) for of, at in models]
        yield from self._left_tables()
        yield from self._unused_bindings()
        if keeper := self._record:
            for files_left in _few(keeper.left_over()):
                yield [Piece("file of no segment", str(one), _bound(keeper.remove, one)) for one in files_left]
        for keys in _few(self._context.read(lambda tx: tx.open_seats())):
            yield [Piece("written again: files of", str(key), _bound(self._write_confs, key)) for key in keys]

    def _left_tables(self) -> Pieces:
        """Yield files of tables that no row names, and unfinished ones."""
        context, before = self._context, self._context.clock() - _TABLE_GRACE
        for found in _few(context.files.table_files_before(before), _LOOKED_UP_AT_ONCE):
            yield []
            for some in _few(context.read(_bound(_without_row, found))):
                yield [Piece("file of no table", str(one), _bound(self._drop_table_file, one, before)) for one in some]

    def _drop_table_file(self, file: TableFile, before: int) -> bool:
        """Remove the file, unless its job may still name it, or an unfinished job names its table to write it anew."""
        context = self._context
        job_ids = _jobs_of(file, "" if file.draft else context.files.maker_of_table(file))
        if not job_ids and not file.draft:
            return False                  # nobody knows who has put it there; it may be no table of ours
        # Asked in this order: a job names its tables before it is over, so of one that is over, the row is here.
        is_needed = context.read(lambda tx: any(map(tx.is_open, job_ids)) or file not in _without_row(tx, [file]))
        if is_needed or any(map(context.engines.has_living_worker, job_ids)):
            return False
        if file.name and any({file.namespace, file.name} <= texts for texts in self._open_jobs().values()):
            return False
        return context.files.remove_table_file(file, before)

    def _unused_bindings(self) -> Pieces:
        """Yield bindings of job ids of which nothing else is left here: no rows, logs, tables (also without a row: they
        count for the quota of the initiator, whom the binding names) or models."""
        after = ""
        while found := self._context.read(_bound(lambda tx, after: tx.unused_bindings(after, _AT_ONCE), after)):
            after = found[-1]
            without_files = [job_id for job_id in found if not self._has_files(job_id)]
            yield [Piece("binding of job", job_id, _bound(self._unbind, job_id)) for job_id in without_files]

    def _has_files(self, job_id: str) -> bool:
        return self._context.files.has_logs(job_id) or self._context.files.has_table_files(job_id)

    def _unbind(self, job_id: str) -> bool:
        return self._context.write(lambda tx: tx.unbind(job_id), is_repeatable=True)

    def _remove_folder(self, job_id: str) -> bool:
        # A row is committed before its folder is made, so the row of a folder without one was removed.
        if self._context.read(lambda tx: tx.jobs_here(job_id)) or self._context.engines.has_living_worker(job_id):
            return False
        self._context.files.remove_job(job_id)
        return True

    def _drop_upload(self, path: str) -> bool:
        if any(path in texts for texts in self._open_jobs().values()):
            return False
        self._context.files.remove_artifact(file_at(path))
        return True

    def _drop_model(self, reference: ModelReference, party: Party) -> bool:
        """Remove the file of a model that has no row: its transaction failed, or a crash came after its removal."""
        if self._context.read(lambda tx: tx.model(reference, party)) is not None:
            return False
        nothing = StoredModel(reference, party, JSON_MODEL, "", 0, "", "", 0, "", {})
        return remove_model_of_no_row(self._context, nothing)

    def _write_confs(self, key: JobKey) -> bool:
        if self._context.files.has_confs(key):
            return False
        document = self._context.read(lambda tx: tx.document(key.job_id) if tx.job(key) else None)
        if document is None:
            return False
        carry_out(self._context, WriteConfs(key, self._at(document, key)))      # the job may be refused meanwhile
        return True

    def _at(self, document: Document, key: JobKey) -> Document:
        """Return the document as this seat sees it; the stored one may be that of another seat."""
        spec = spec_in_row(self._context, document)
        return replace(document, on_party=effective_document(spec, key.party))


def _bound(act: Callable[..., T], *last: Any) -> Callable[..., T]:
    """Return `act` with its last arguments bound now, so that the loop around it does not change them."""
    return lambda *first: act(*first, *last)


def _few(items: Iterable[T], at_once: int = _AT_ONCE) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, at_once)):
        yield some


def _without_row(tx: Transaction, files: Iterable[TableFile]) -> list[TableFile]:
    return [one for one in files if one.draft or tx.table(one.namespace, one.name) is None]


def _jobs_of(file: TableFile, maker: str) -> frozenset[str]:
    """Return the jobs to which the file belongs: by its namespace, and by the task that has written it."""
    found = set[str]()
    of_namespace = file.namespace.removeprefix(OUTPUT) if file.namespace.startswith(OUTPUT) else ""
    for text in (of_namespace, maker.partition("_")[0]):
        with suppress(BadRequest):
            found.add(check_job_id(text))
    return frozenset(found)


def _is_named(kept: Kept, texts: frozenset[str]) -> bool:
    return kept.job_id in texts or bool(kept.names and kept.names <= texts)


def _digest_of(tx: Transaction, job_id: str) -> str:
    binding = tx.binding(job_id)
    return binding.digest if binding is not None else ""


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
