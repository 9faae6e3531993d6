"""A Ray cluster as a place for runners.

A worker is a job of Ray whose submission id is its name, so the cluster itself refuses a second one. Ray keeps jobs in
its head alone: a head that was started again knows none, and what was submitted to it counts as gone.

The stop of a job sends SIGTERM to each of its processes, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S, which is 3 s
unless the job says otherwise. A pending job that is stopped stays in the list until its place is free, and then finds
the claim.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from fate_flow.engines.local.worker import EXIT
from fate_flow.engines.placed.cluster import Listed, Placement, Stage, Submission, Taken, Unreadable
from fate_flow.engines.ray.client import JOBS, NoAnswer, NoCredentials, NotSent, RayAnswer, RayClient
from fate_flow.engines.ray.tables import STATUSES, TITLE, answer_of, cause_of, one_line, waiting_of

log = logging.getLogger(__name__)

FOLDER = "fate_flow_folder"            # in the metadata of a job
_OPEN = "/api/version"                 # a small answer, for which Ray wants its token as for a job
_MOST_LISTED_BYTES = 64 * 1024 * 1024
_MOST_BYTES = 1024 * 1024
_AFTER_GRACE_SECONDS = 10              # for the runner to write the end, before Ray kills it
_SENDING_SECONDS = 60                  # the same where it is sent to the server, with what the worker has made
_KEPT_SECONDS = 900.0                  # in Ray's list, after the end of a worker
_MOST_REMOVED = 20                     # a listing
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
_TELLS_ALL = (
    "it answers callers without its token, so it would show them the claim token of the worker: start Ray with "
    "RAY_AUTH_MODE=token, or share the home and set shared_home to true"
)


@dataclass(frozen=True)
class RayShare:
    """What jobs of a party ask for besides the needs of each worker."""

    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    driver_cores: int = 0          # that Ray sets aside of those of a worker; 0: all
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)      # custom resources by the label of jobs


class RayCluster:
    """The jobs of this home on one Ray cluster. One thread uses it, apart from `cause_in`."""

    def __init__(
        self, client: RayClient, prefix: str, own: RayShare, partners: Mapping[str, RayShare] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`prefix`: of the names of this home; `partners`: by party id, for jobs of others."""
        self._client = client
        self._prefix = prefix
        self._own = own
        self._partners = dict(partners or {})
        self._clock = clock
        self._causes: Mapping[str, tuple[str, str]] = {}    # by folder: of jobs that Ray has ended
        self._ended_since: dict[str, float] = {}            # by name
        self._stopped: set[str] = set()                     # names of jobs that Ray has agreed to stop

    @property
    def title(self) -> str:
        return TITLE

    def submit(self, placement: Placement) -> Submission:
        try:
            if placement.secrets and (why_not := self._why_no_secrets()) is not None:
                return why_not
            answer = self._client.post(JOBS, self._document(placement), _MOST_BYTES)
        except NoCredentials as error:
            log.warning("%s: %s", TITLE, error)
            return Submission(Taken.NOT_REACHED, "its token or certificate cannot be read")
        except NotSent as error:
            return Submission(Taken.NOT_REACHED, str(error))
        except NoAnswer as error:
            return Submission(Taken.IN_DOUBT, str(error))
        if answer.status != 200:
            return answer_of(answer.status, answer.text)
        if _id_in(answer) != placement.name:        # of a proxy, or of another server
            return Submission(Taken.IN_DOUBT, "its answer names another job")
        return Submission(Taken.ACCEPTED)

    def _why_no_secrets(self) -> Submission | None:
        """Return what becomes of a job with a secret, which Ray shows; None if Ray shows it to those with its token
        alone. Raises NotSent."""
        try:
            status = replace(self._client, token_file=None).get(_OPEN, _MOST_BYTES).status
        except NoAnswer as error:
            raise NotSent(str(error)) from error
        if status >= 500:
            return Submission(Taken.NOT_REACHED, f"status {status} without its token")
        return Submission(Taken.REFUSED, _TELLS_ALL) if 200 <= status < 300 else None

    def listing(self) -> Sequence[Listed]:
        try:
            answer = self._client.get(JOBS, _MOST_LISTED_BYTES)
            if answer.status != 200:
                raise Unreadable(f"status {answer.status}: {one_line(answer.text)}")
            found = answer.document()
        except (NotSent, NoAnswer, ValueError) as error:
            raise Unreadable(str(error)) from error
        if not isinstance(found, list):
            raise Unreadable("its answer is no list of jobs")
        ours = [listed for one in found if (listed := self._listed(one)) is not None]
        self._causes = {one.folder: (one.cause, f"{TITLE} says {one.word}") for one in ours if one.cause}
        self._remove_old(ours)
        self._stopped &= {one.name for one in ours}
        # A pending job that was stopped ends as soon as it begins; until then Ray goes on listing it as pending.
        return [
            replace(one, stage=Stage.ENDED, word=f"{one.word}, and stopped", waiting=None)
            if one.stage is Stage.PENDING and one.name in self._stopped else one
            for one in ours
        ]  # fmt: skip

    def _listed(self, one: object) -> Listed | None:
        """Return a job of a listing if it is one of ours; say once why Ray has ended it."""
        listed = _listed(one, self._prefix)
        if listed is not None and listed.cause and listed.name not in self._ended_since:
            # It names machines and processes of this party: the log alone has it.
            message = one.get("message") if isinstance(one, dict) else ""
            log.warning("%s has ended %s: %s: %s", TITLE, listed.name, listed.word, one_line(str(message)))
        return listed

    def signal(self, name: str) -> None:
        self._stop(name)

    def cancel(self, name: str) -> None:
        self._stop(name)

    def admit(self, name: str) -> None:
        """Nothing: no place is kept for a job."""

    def cause_in(self, folder: Path) -> tuple[str, str]:
        return self._causes.get(str(folder), ("", ""))

    def _stop(self, name: str) -> None:
        """Stop a job. What cannot be reached now is asked again after a listing."""
        try:
            answer = self._client.post(f"{JOBS}{name}/stop", None, _MOST_BYTES)
        except (NotSent, NoAnswer) as error:
            log.warning("%s: cannot stop %s: %s", TITLE, name, error)
            return
        if answer.status == 200:
            self._stopped.add(name)
        elif answer.status != 404:
            log.warning("%s: cannot stop %s: status %d: %s", TITLE, name, answer.status, one_line(answer.text))

    def _remove_old(self, listed: Sequence[Listed]) -> None:
        """Remove jobs whose workers ended long ago: Ray keeps them for as long as its head runs, and lists them all.

        Not at once: its own monitor of a job would write the entry again."""
        now = self._clock()
        ended = [one for one in listed if one.stage is Stage.ENDED]
        self._ended_since = {one.name: self._ended_since.get(one.name, now) for one in ended}
        old = [one for one in ended if now - self._ended_since[one.name] >= _KEPT_SECONDS and _is_settled(one)]
        for one in old[:_MOST_REMOVED]:
            try:
                self._client.delete(f"{JOBS}{one.name}", _MOST_BYTES)
            except (NotSent, NoAnswer) as error:
                log.info("%s: cannot remove %s: %s", TITLE, one.name, error)
                return

    def _document(self, placement: Placement) -> dict[str, Any]:
        share, need = self._partners.get(placement.partner, self._own), placement.need
        variables = {
            **_variables_of(share.runtime_env), **placement.env,
            _STOP_WAIT: str(ceil(placement.grace_seconds) + (
                _SENDING_SECONDS if placement.secrets else _AFTER_GRACE_SECONDS
            )),
        }  # fmt: skip
        asked: dict[str, Any] = {
            "entrypoint_num_gpus": need.gpus, "entrypoint_memory": need.memory_mb * 1024 * 1024,
            "entrypoint_resources": {
                **share.resources,
                **{name: most for one in need.labels for name, most in share.labels[one].items()},
            },
        }
        return {
            # The process that Ray waits for has to be ours, not a shell above it.
            "entrypoint": f"exec {shlex.join(placement.argv)}",
            "submission_id": placement.name,
            # Of all that Ray knows of a job, its metadata are in the fewest places (docs/guides/ray.md).
            "metadata": {FOLDER: str(placement.folder), **placement.secrets},
            "runtime_env": {**share.runtime_env, "env_vars": variables},
            # Without any resource Ray would run it on its head.
            "entrypoint_num_cpus": max(1, min(need.cores, share.driver_cores or need.cores)),
            **{name: value for name, value in asked.items() if value},
        }


def _variables_of(runtime_env: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = runtime_env.get("env_vars") or {}
    return found


def _id_in(answer: RayAnswer) -> object:
    try:
        found = answer.document()
    except ValueError:
        return None
    return found.get("submission_id") if isinstance(found, dict) else None


def _listed(one: object, prefix: str) -> Listed | None:
    """Return a job of a listing if it is one of ours."""
    if not isinstance(one, dict) or not isinstance(name := one.get("submission_id"), str):
        return None
    if not name.startswith(prefix):
        return None
    metadata, message = one.get("metadata"), str(one.get("message") or "")
    status, error_type = str(one.get("status")), str(one.get("error_type") or "")
    stage = STATUSES.get(status, Stage.UNKNOWN)
    word = f"{status} ({error_type})" if error_type and stage is Stage.ENDED else status
    return Listed(
        name=name,
        folder=str(metadata.get(FOLDER, "")) if isinstance(metadata, dict) else "",
        stage=stage,
        cause=cause_of(error_type, message) if stage is Stage.ENDED else "",
        word=word,
        waiting=waiting_of(message) if stage is Stage.PENDING else None,
    )


def _is_settled(one: Listed) -> bool:
    """Return whether the folder of a job says how its worker ended, or is gone."""
    return not one.folder or not Path(one.folder).exists() or (Path(one.folder) / EXIT).exists()
