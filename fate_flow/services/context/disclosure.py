"""What each party learns of the document of a job: commands and answers of the initiator, made for their receiver."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from fate_flow.core.model.document import JobDocument, fate_v1_document
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import CONF_PARTS, JobSpec, Party
from fate_flow.core.wire.v1.job_bodies import Parameters
from fate_flow.core.wire.v1.withholding import restricted_answer, restricted_command
from fate_flow.jobspec import formats
from fate_flow.jobspec.fate_v1.reader import conf_of
from fate_flow.services.context.ports import Context
from fate_flow.store.values import Document

WITHHELD = "(withheld)"
"""Stands in a message for a text of another party's parameters."""


def with_disclosure(
    context: Context, document: Document, whole: Collection[str], earlier: Document | None = None
) -> Document:
    """Return the document of an own job with new salts for its private parts, or those that the `earlier` one has for
    the same parts. `whole`: ids of the parties that get the whole document."""
    before = None if earlier is None else earlier.content
    content = formats.with_disclosure(document.content, whole, context.fresh_salt, before)
    return replace(document, disclosure=content.disclosure)


def as_given_to(document: Document, party_id: str) -> Document:
    """Return what another party gets of the document of an own job."""
    known = document.disclosure
    if known is None:
        return document
    content = formats.as_given_to(document.content, party_id)
    given = replace(document, disclosure=content.disclosure)
    if party_id in known.whole:
        return given
    if document.own is None:
        return replace(given, runtime_conf=conf_of(content))
    shown = formats.as_given_to(fate_v1_document(document.dsl, document.runtime_conf), party_id)
    return replace(given, runtime_conf=conf_of(shown), own=replace(content, disclosure=None))


def command_for(spec: JobSpec | None, command: Command) -> Command:
    """Return the command of an own job to another party with what this party gets of the document. A `create` is made
    for its receiver."""
    party_id = command.to.party_id
    if command.kind is CommandKind.CREATE or spec is None or not _withholds(spec, party_id):
        return command
    return restricted_command(command, partial(_parameters_for, spec, party_id), partial(_redacted, spec, party_id))


def answer_to(spec: JobSpec | None, party_id: str, answer: Answer) -> Answer:
    """Return the answer about an own job without texts that this party does not get."""
    if spec is None or not _withholds(spec, party_id):
        return answer
    return restricted_answer(answer, partial(_redacted, spec, party_id))


def texts_not_for(document: Document | None, initiator: Party, party_id: str) -> frozenset[str]:
    """Return the texts of a job's document, as it is known here, that another party of the job does not get."""
    if document is None or document.disclosure is None or party_id == initiator.party_id:
        return frozenset()
    if party_id in document.disclosure.whole:
        return frozenset()
    return formats.texts_not_for(document.content, party_id)


def _withholds(spec: JobSpec, party_id: str) -> bool:
    known = spec.disclosure
    return known is not None and bool(known.salts) and party_id not in known.whole


def _parameters_for(spec: JobSpec, party_id: str, parameters: Parameters) -> Parameters:
    """Return the changed parameters for this party. A document with changed parameters is in FATE v1."""
    given = formats.as_given_to(replace(_in_fate_v1(spec), disclosure=spec.disclosure), party_id)
    conf = {part: conf_of(given).get(part) or {} for part in CONF_PARTS}
    return replace(parameters, conf=conf, disclosure=given.disclosure)


def _redacted(spec: JobSpec, party_id: str, message: str) -> str:
    return without_texts(message, formats.texts_not_for(_in_fate_v1(spec), party_id))


def without_texts(message: str, texts: Collection[str]) -> str:
    """Return the message without these texts, unless they are only a part of a word in it."""
    for text in sorted(filter(None, texts), key=len, reverse=True):
        for piece in dict.fromkeys((text, text[:_SHOWN])):
            if piece in message:                 # a document has thousands of texts, a message few of them
                message = re.sub(_word(piece, is_cut=piece != text), WITHHELD, message)
    return message


_SHOWN = 60          # characters of a long text that messages show (`grammar.shown`)


def _word(text: str, *, is_cut: bool) -> str:
    before, after = (r"(?<!\w)" if text[0].isalnum() else ""), (r"(?!\w)" if text[-1].isalnum() else "")
    return f"{before}{re.escape(text)}{'' if is_cut else after}"


def _in_fate_v1(spec: JobSpec) -> JobDocument:
    return fate_v1_document(spec.dsl, spec.conf)
