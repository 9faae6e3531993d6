"""The table of the engines as a peewee model; part of `models.MODELS`."""

from __future__ import annotations

from peewee import BigIntegerField, CharField, CompositeKey, DateTimeField, IntegerField, TextField

from fate_flow.store.database.base import Base


class EngineRow(Base):
    f_engine_type = CharField(10)
    f_engine_name = CharField(50)
    f_create_time = BigIntegerField(null=True)
    f_create_date = DateTimeField(null=True)
    f_update_time = BigIntegerField(null=True)
    f_update_date = DateTimeField(null=True)
    f_engine_entrance = CharField(50, null=True)
    f_engine_config = TextField(null=True)
    f_cores = IntegerField()
    f_memory = IntegerField()
    f_remaining_cores = IntegerField()
    f_remaining_memory = IntegerField()
    f_nodes = IntegerField()
    f_gpus = IntegerField(default=0)
    f_remaining_gpus = IntegerField(default=0)

    class Meta:
        table_name = "t_engine_registry"
        primary_key = CompositeKey("f_engine_name", "f_engine_type")
