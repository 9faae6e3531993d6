"""The tables of the record, as peewee models; part of `models.MODELS`."""

from __future__ import annotations

from collections.abc import Sequence

from peewee import BigAutoField, BigIntegerField, BooleanField, CharField, CompositeKey, TextField

from fate_flow.core.record.tree import HASH_BYTES
from fate_flow.store.database.base import Base


def text_of_hashes(hashes: Sequence[bytes]) -> str:
    """Return the text of a column with these hashes."""
    return b"".join(hashes).hex()


def hashes_in(text: str) -> tuple[bytes, ...]:
    """Return the hashes that the text of a column has."""
    raw = bytes.fromhex(text)
    return tuple(raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES))


class RecordEntryRow(Base):
    f_id = BigAutoField()
    f_log = CharField(20)
    f_epoch = BigIntegerField(default=0)
    f_index = BigIntegerField(null=True)
    f_kind = CharField(20)
    f_job_id = CharField(25, default="")
    f_time = BigIntegerField()
    f_salt = CharField(64, default="")
    f_text = TextField()
    f_content = TextField()

    class Meta:
        table_name = "t_record_entry"


class RecordBatchRow(Base):
    f_log = CharField(20)
    f_epoch = BigIntegerField()
    f_first = BigIntegerField()
    f_ids = TextField()
    f_hashes = TextField()
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_record_batch"
        primary_key = CompositeKey("f_log", "f_epoch", "f_first")


class RecordHeadRow(Base):
    f_log = CharField(20, primary_key=True)
    f_epoch = BigIntegerField()
    f_size = BigIntegerField()
    f_edge = TextField()

    class Meta:
        table_name = "t_record_head"


class RecordCheckpointRow(Base):
    f_log = CharField(20)
    f_epoch = BigIntegerField()
    f_size = BigIntegerField()
    f_note = TextField()
    f_edge = TextField()
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_record_checkpoint"
        primary_key = CompositeKey("f_log", "f_epoch", "f_size")


class WitnessedRow(Base):
    f_origin = CharField(255, primary_key=True)
    f_size = BigIntegerField()
    f_note = TextField()
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_record_witnessed"


class QuestionRow(Base):
    f_party_id = CharField(10, primary_key=True)
    f_questions = CharField(600)

    class Meta:
        table_name = "t_record_question"


class EvidenceRow(Base):
    f_origin = CharField(255)
    f_size = BigIntegerField()
    f_is_proof = BooleanField()
    f_party_id = CharField(10)
    f_first = TextField()
    f_second = TextField()
    f_shown = TextField()
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_record_evidence"
        primary_key = CompositeKey("f_origin", "f_size", "f_is_proof")


class PersonRow(Base):
    f_person_id = CharField(32, primary_key=True)
    f_name = CharField(200)

    class Meta:
        table_name = "t_record_person"


class SegmentRow(Base):
    f_log = CharField(20)
    f_epoch = BigIntegerField()
    f_first = BigIntegerField()
    f_end = BigIntegerField()
    f_first_id = BigIntegerField()
    f_last_id = BigIntegerField()
    f_newest = BigIntegerField()
    f_has_texts = BooleanField()
    f_digest = CharField(64)

    class Meta:
        table_name = "t_record_segment"
        primary_key = CompositeKey("f_log", "f_epoch", "f_first")


class SegmentJobRow(Base):
    f_job_id = CharField(25)
    f_log = CharField(20)
    f_epoch = BigIntegerField()
    f_first = BigIntegerField()

    class Meta:
        table_name = "t_record_segment_job"
        primary_key = CompositeKey("f_job_id", "f_log", "f_epoch", "f_first")
