"""The pages of the board. Each names the command of `flow` that says the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from fate_flow.api.monitoring.peer_states import freshness, peers_of
from fate_flow.api.v1.jobs.explain import explained, recounted
from fate_flow.api.v1.jobs.list_arguments import read_place, read_search, written_place
from fate_flow.api.v1.rendering.document_changes import MANY_VALUES, Changes, KeptChanges, contents
from fate_flow.api.v1.rendering.job_engines import engines_here
from fate_flow.core.model.grammar import check_job_id
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.space import no_space
from fate_flow.store.views import board as board_lists
from fate_flow.store.views.server_state import EngineUse
from fate_flow.store.views.times.usage import end_of_quarters
from fate_flow.web.board import Board
from fate_flow.web.charts.drawing import SIZES as SIZES_OF_CHARTS
from fate_flow.web.charts.drawing import laid_out
from fate_flow.web.charts.usage import usage_blocks
from fate_flow.web.jobs.conditions import with_conditions
from fate_flow.web.jobs.folded_graph import folded
from fate_flow.web.jobs.graph import MOST_DRAWN, nodes_of, page_of
from fate_flow.web.jobs.seat_resources import resources_of
from fate_flow.web.jobs.shown_parameters import MANY, WHOLE_JOB, shown_parameters
from fate_flow.web.jobs.timeline import PHASES, SIZES, timeline_of
from fate_flow.web.jobs.whose_move import who_acts
from fate_flow.web.pages import CALM, FRESH, HEADERS, counted_piece, list_command
from fate_flow.web.partners import partners_of
from fate_flow.web.task_addresses import number, share_place, written_share

_FILTERS = ("status", "text", "party", "person", "component", "after", "before")
_ENDED = ("success", "failed", "canceled", "timeout")
_MOST_EVIDENCE = 3
_MINUTE = 60_000


def add_views(routes: Blueprint, board: Board) -> None:
    views = _Views(board)
    routes.get("/")(views.overview)
    routes.get("/jobs")(views.jobs)
    routes.get("/jobs/count")(views.count)
    routes.get("/jobs/<job_id>")(views.job)
    routes.get("/jobs/<job_id>/history")(views.history)
    routes.get("/jobs/<job_id>/document")(views.document)


class _Views:
    def __init__(self, board: Board) -> None:
        self._board, self._services, self._show = board, board.services, board.show
        self._views, self._queries, self._settings = board.views, board.queries, board.settings
        self._changes = KeptChanges()
        self._usage_kept: tuple[int, tuple[tuple[int, int], ...], Sequence[Mapping[str, Any]]] | None = None

    # ------------------------------------------------------------------ lists

    def overview(self) -> Response:
        found = self._queries.overview()
        limit = self._services.context.rules.party_silence
        with_conditions([*found.running, *found.at_others], found.moving, limit)
        peers = peers_of(self._settings)
        partners = partners_of(
            sorted(self._settings.routes), peers, found.moving.troubles, found.moving.steady, found.keys,
            self._services.context.clock(), freshness(self._settings.limits),
        )  # fmt: skip
        totals: dict[str, int] = {}
        for (_, status), count in found.seats.items():
            totals[status] = totals.get(status, 0) + count
        return self._show(
            "overview.html", reviews=found.reviews, poll=FRESH if totals else CALM, found=found, totals=totals,
            usage=self._usage(found.engines),
            chart_sizes=SIZES_OF_CHARTS, partners=partners, no_space=no_space(self._services.context),
            most_evidence=_MOST_EVIDENCE, ended_lately=board_lists.ENDED_LATELY,
        )  # fmt: skip

    def _usage(self, engines: Sequence[EngineUse]) -> Sequence[Mapping[str, Any]]:
        """Return what was reserved in the last day; it is read and drawn once in each quarter of an hour."""
        end = end_of_quarters(self._services.context.clock())
        sizes = tuple((one.cores, one.memory) for one in engines)
        kept = self._usage_kept
        if kept is None or kept[:2] != (end, sizes):
            blocks = usage_blocks(self._queries.usage(end), engines)
            kept = self._usage_kept = (end, sizes, [laid_out(one) for one in blocks])
        return kept[2]

    def jobs(self) -> Response:
        given = {key: value.strip() for key, value in request.args.items()}
        search, before = read_search(given), read_place(given)
        found, moving, reviews = self._queries.jobs(search, before)
        rows = with_conditions(found.rows, moving, self._services.context.rules.party_silence)
        kept = {key: value for key in _FILTERS if (value := given.get(key, ""))}
        following = written_place(found.next)
        older = f"/board/jobs?{urlencode({**kept, 'from': following})}" if following else ""
        is_first = before is None
        # A search in rows reads up to thousands of jobs: not again every few seconds for a page that nobody looks at.
        poll = FRESH if is_first and not search.reads_rows else 0
        return self._show(
            "jobs.html", reviews=reviews, poll=poll, found=found, rows=rows, older=older,
            kept=kept, statuses=[status.value for status in JobStatus], is_first=is_first,
            most_searched=board_lists.MOST_SEARCHED, counting=f"/board/jobs/count?{urlencode(kept)}",
            command=list_command("job list", kept, written_place(before)), search=search,
        )  # fmt: skip

    def count(self) -> Response:
        """Count on: what the page of jobs asks, one piece after the other, when somebody wants to know how many."""
        found = self._queries.count_jobs(read_search(request.args), read_place(request.args))
        return counted_piece(found.count, found.looked_at, written_place(found.next))

    # ------------------------------------------------------------------ one job

    def job(self, job_id: str) -> Response:
        snapshot, reviews = self._queries.job(check_job_id(job_id))
        if snapshot is None:
            raise self._board.unknown(job_id)
        context, own = self._services.context, snapshot.jobs[0]
        document = snapshot.document
        spec = self._board.spec(own, document, snapshot.digest)
        before = self._queries.approved_before(job_id, own.initiator.party_id, document) if document else None
        found = explained(
            snapshot, engines_here(context, snapshot, spec), spec, now=0, order=tuple(spec.tasks) if spec else (),
            limit=context.rules.party_silence, least_ttl=context.ceilings.ttl_of(0), no_space="",
        )
        seats = None if own.is_initiator else {one.party for one in snapshot.jobs}
        nodes, behind = nodes_of(spec, found["tasks"], seats), request.args.get("from", "")
        rows, following = page_of(nodes, behind)
        groups = folded(nodes) if spec is not None and len(nodes) > MOST_DRAWN else ()
        drawn = json.dumps([one.as_json() for one in groups or nodes]) if spec is not None and len(nodes) > 1 else ""
        differs = Changes()
        if document and before:
            first = number(request.args, "differences") or 0
            differs = self._changes.of(before.document, document, (before.digest, snapshot.digest), first)
        is_over = found["status"] in _ENDED
        parameters = shown_parameters(spec, {one.name for one in rows}, number(request.args, "parameters") or 0)
        is_calm = is_over or differs.values > MANY_VALUES or parameters.count > MANY
        return self._show(
            "job.html", reviews=reviews, poll=CALM if is_calm else FRESH, job=found, nodes=nodes, drawn=drawn,
            rows=rows, is_first=not behind, following=following, is_read=spec is not None,
            tasks={one["component_name"]: one for one in found["tasks"]}, is_over=is_over,
            before=before, differs=differs,
            acts=who_acts(found, self._settings.party_id), groups=groups,
            parameters=parameters, whole_job=WHOLE_JOB, behind=behind,
            resources=resources_of(context, spec, found["parties"]),
        )  # fmt: skip

    def document(self, job_id: str) -> Response:
        """Send the whole document of a job, with its digest, as text."""
        found = self._views.document(check_job_id(job_id))
        if found is None:
            raise self._board.unknown(job_id)
        return Response(contents(found), mimetype="text/plain", headers=HEADERS)

    def history(self, job_id: str) -> Response:
        behind, after = share_place(request.args), number(request.args, "from") or 0
        is_folded = not request.args.get("tasks")
        found, reviews = self._queries.times(check_job_id(job_id), after, behind, is_folded=is_folded)
        if found is None:
            raise self._board.unknown(job_id)
        own = found.jobs[0]
        # What goes on is drawn up to the minute: so the page stays the same for a while, and is not sent again.
        now = self._services.context.clock() // _MINUTE * _MINUTE
        folds_runs = not number(request.args, "runs")
        drawn = timeline_of(found, now, self._not_seen(found.jobs), folds_runs=folds_runs)
        return self._show(
            "history.html", reviews=reviews, poll=0 if after else CALM if own.is_final else FRESH, job_id=job_id,
            found=found, moves=[recounted(one) for one in found.moves], drawn=drawn, behind=behind, after=after,
            further=written_share(found.next_share) if found.next_share else "", phases=PHASES, sizes=SIZES,
            phases_seen=sorted({one.kind for track in drawn.tracks for one in track.phases}, key=list(PHASES).index),
        )  # fmt: skip

    def _not_seen(self, jobs: Sequence[Job]) -> Sequence[Party]:
        """Return the parties of a job whose states do not come to this party, which has these rows of it."""
        if jobs[0].is_initiator:
            return ()
        spec = self._board.spec(jobs[0])
        own = {one.party for one in jobs}
        return [one for one in spec.parties if one not in own] if spec is not None else ()
