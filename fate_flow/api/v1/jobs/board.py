"""Where `board_url` of a submit leads. This server has no board, and the page says what shows a job instead."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.declared import declared

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Party {party_id}</title>
<h1>Party {party_id}</h1>
<p>This server has no board. What a job does is shown by these commands; its id stands in the address of this page.</p>
<pre>
flow --server {url} job watch -j JOB_ID
flow --server {url} job explain -j JOB_ID
flow --server {url} job log -j JOB_ID -o .
</pre>
"""


def blueprint(party_id: str, url: str) -> Blueprint:
    """The page at `/index.html`, where FATE has its board."""
    board = Blueprint("board", __name__)
    page = _PAGE.format(party_id=party_id, url=url)

    @board.get("/index.html")
    @declared("A page that names the commands which show a job.", file="text/html")
    def index() -> Response:
        return Response(page, mimetype="text/html")

    return board
