"""The tables of the store of models, as peewee models; part of `models.MODELS`."""

from __future__ import annotations

from peewee import BigIntegerField, CharField, CompositeKey, TextField

from fate_flow.store.database.base import Base


class StoredModelRow(Base):
    f_model_id = CharField(100)
    f_model_version = BigIntegerField()
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_component_name = CharField(100)
    f_output = CharField(60)
    f_kind = CharField(50)
    f_sha256 = CharField(64)
    f_bytes = BigIntegerField()
    f_job_id = CharField(25)
    f_initiator_party_id = CharField(10)
    f_task_version = BigIntegerField()
    f_component_module = CharField(200)
    f_roles = TextField()
    f_metadata = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_stored_model"
        primary_key = CompositeKey(
            "f_model_id", "f_model_version", "f_role", "f_party_id", "f_component_name", "f_output"
        )  # fmt: skip


class DeploymentRow(Base):
    f_name = CharField(25, primary_key=True)
    f_model_id = CharField(100)
    f_model_version = BigIntegerField()
    f_document = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_model_deployment"


class ModelTagRow(Base):
    f_name = CharField(100, primary_key=True)
    f_description = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_model_tag"


class TaggedModelRow(Base):
    f_name = CharField(100)
    f_model_id = CharField(100)

    class Meta:
        table_name = "t_tagged_model"
        primary_key = CompositeKey("f_name", "f_model_id")
