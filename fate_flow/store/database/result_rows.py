"""The tables of what components have made, as peewee models; part of `models.MODELS`."""

from __future__ import annotations

from peewee import BigAutoField, BigIntegerField, CharField, CompositeKey, TextField

from fate_flow.store.database.base import Base


class OutputRow(Base):
    f_job_id = CharField(25)
    f_component_name = CharField(100)
    f_task_id = CharField(100)
    f_task_version = BigIntegerField()
    f_data_name = CharField(30)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_table_name = CharField(500, null=True)
    f_table_namespace = CharField(500, null=True)
    f_written_by = CharField(25, default="")
    f_description = TextField(null=True)
    f_create_time = BigIntegerField(null=True)

    class Meta:
        table_name = "t_tracking_output_data_info"
        primary_key = CompositeKey("f_job_id", "f_task_id", "f_task_version", "f_data_name", "f_role", "f_party_id")


class MetricRow(Base):
    f_id = BigAutoField()
    f_job_id = CharField(25)
    f_component_name = CharField(100)
    f_task_id = CharField(100, null=True)
    f_task_version = BigIntegerField(null=True)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_metric_namespace = CharField(180)
    f_metric_name = CharField(180)
    f_data = TextField()
    f_meta = TextField()
    f_create_time = BigIntegerField(null=True)

    class Meta:
        table_name = "t_tracking_metric"


class SummaryRow(Base):
    f_job_id = CharField(25)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_component_name = CharField(100)
    f_task_id = CharField(100)
    f_task_version = BigIntegerField()
    f_summary = TextField()
    f_create_time = BigIntegerField(null=True)

    class Meta:
        table_name = "t_component_summary"
        primary_key = CompositeKey("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id")
