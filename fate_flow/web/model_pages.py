"""The page of a model that a task has made: charts and tables of its content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, request

from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import check_output_name, shown
from fate_flow.services.context.recent import MadeValues
from fate_flow.store.values import StoredModel
from fate_flow.web.board import Board
from fate_flow.web.charts.drawing import SIZES, SIZES_OF_BARS, laid_out
from fate_flow.web.charts.models import model_blocks
from fate_flow.web.charts.values import Block
from fate_flow.web.task_addresses import page_number
from fate_flow.web.task_pages import MOST_KEPT, Address, TaskPages

MOST_BYTES = 16 * 1024 * 1024
"""Of a model whose content is shown."""
BLOCKS_PAGE = 20


def add_model_pages(routes: Blueprint, board: Board, tasks: TaskPages) -> None:
    kept: MadeValues[tuple[Block, ...]] = MadeValues(MOST_KEPT)

    @routes.get("/jobs/<job_id>/tasks/<name>/model")
    def model(job_id: str, name: str) -> Response:
        """Show one model, for who may read models."""
        board.check_may("read_models", "models that tasks made")
        shares, share = tasks.own_share(job_id, name)
        output = check_output_name(request.args.get("output", ""), "output")
        models, sources, reviews = board.queries.models(share.key)
        found = _model(models, output, name)
        every = kept.of((share.key, output), found.sha256, lambda: model_blocks(_content(board, found)))
        page = page_number(request.args)
        first = (page - 1) * BLOCKS_PAGE
        return board.show(
            "model.html", reviews=reviews, job_id=job_id, name=name, share=share, model=found,
            output=output, address=Address(job_id, name), count=len(every), page=page, first=first,
            blocks=[laid_out(one) for one in every[first : first + BLOCKS_PAGE]],
            pages=max(1, -(-len(every) // BLOCKS_PAGE)), sizes=SIZES, sizes_of_bars=SIZES_OF_BARS,
            sources=sources, found=shares,
        )  # fmt: skip


def _model(models: Sequence[StoredModel], output: str, name: str) -> StoredModel:
    found = next((one for one in models if one.reference.output == output), None)
    if found is None:
        raise NotFound(f"output: {name} has stored no model {shown(output)} in this attempt")
    return found


def _content(board: Board, model: StoredModel) -> Any:
    """Return the value. Raise NotFound if it is not one file of JSON; OperationFailed if it cannot be read."""
    found = board.services.use_cases.models.value(model, MOST_BYTES)
    if found is None:
        raise NotFound(
            f"output: {model.reference.output} is not one file of JSON of at most {MOST_BYTES} bytes; "
            "flow model export has it"
        )
    return found
