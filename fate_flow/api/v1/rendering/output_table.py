"""The record of an output table as clients of v1 read it."""

from __future__ import annotations

from fate_flow.api.http.declared import an_object
from fate_flow.api.v1.rendering.fields import fields_of, rendering, schemas_of
from fate_flow.api.v1.rendering.statuses import SCHEMAS

OUTPUT_TABLE = fields_of(
    text="job_id component_name task_id data_name role party_id written_by",
    text_or_null="table_name table_namespace description",
    whole="task_version",
    whole_or_null="create_time",
)
OUTPUT_TABLE_SCHEMA = an_object(schemas_of(OUTPUT_TABLE, SCHEMAS), title="OutputTable")

rendered_output_table = rendering(OUTPUT_TABLE)
