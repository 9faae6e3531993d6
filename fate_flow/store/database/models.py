"""The tables as peewee models. `sql/` defines the schema; a test checks that both agree."""

from __future__ import annotations

from peewee import (
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    CompositeKey,
    DateTimeField,
    IntegerField,
    TextField,
)

from fate_flow.core.model.resources import LOCAL
from fate_flow.store.database.access_models import (
    JoinedPartyRow,
    OldPartyKeyRow,
    PartyContactRow,
    PartyKeyRow,
    PartyLimitsRow,
    PermissionRow,
    SiteKeyRow,
    TableUseRow,
)
from fate_flow.store.database.base import Base
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.database.model_rows import DeploymentRow, ModelTagRow, StoredModelRow, TaggedModelRow
from fate_flow.store.database.party_servers import ServerRow
from fate_flow.store.database.record_rows import (
    EvidenceRow,
    PersonRow,
    QuestionRow,
    RecordBatchRow,
    RecordCheckpointRow,
    RecordEntryRow,
    RecordHeadRow,
    SegmentJobRow,
    SegmentRow,
    WitnessedRow,
)
from fate_flow.store.database.result_rows import MetricRow, OutputRow, SummaryRow


class JobRow(Base):
    f_job_id = CharField(25)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_create_time = BigIntegerField(null=True)
    f_create_date = DateTimeField(null=True)
    f_update_time = BigIntegerField(null=True)
    f_update_date = DateTimeField(null=True)
    f_user_id = CharField(25, null=True)
    f_name = CharField(500, default="", null=True)
    f_description = TextField(null=True)
    f_tag = CharField(50, default="", null=True)
    f_dsl = TextField()
    f_runtime_conf = TextField()
    f_runtime_conf_on_party = TextField()
    f_train_runtime_conf = TextField(null=True)
    f_roles = TextField()
    f_initiator_role = CharField(50)
    f_initiator_party_id = CharField(50)
    f_status = CharField(50)
    f_status_code = IntegerField(null=True)
    f_user = TextField(null=True)
    f_is_initiator = BooleanField(default=False)
    f_progress = IntegerField(default=0)
    f_ready_signal = BooleanField(default=False)
    f_ready_time = BigIntegerField(null=True)
    f_cancel_signal = BooleanField(default=False)
    f_cancel_time = BigIntegerField(null=True)
    f_rerun_signal = BooleanField(default=False)
    f_end_scheduling_updates = IntegerField(default=0)
    f_engine_name = CharField(50, null=True)
    f_engine_type = CharField(10, null=True)
    f_cores = IntegerField(default=0)
    f_memory = IntegerField(default=0)
    f_remaining_cores = IntegerField(default=0)
    f_remaining_memory = IntegerField(default=0)
    f_resource_in_use = BooleanField(default=False)
    f_apply_resource_time = BigIntegerField(null=True)
    f_return_resource_time = BigIntegerField(null=True)
    f_inheritance_info = TextField(null=True)
    f_inheritance_status = CharField(50, null=True)
    f_start_time = BigIntegerField(null=True)
    f_start_date = DateTimeField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_end_date = DateTimeField(null=True)
    f_elapsed = BigIntegerField(null=True)
    f_run = IntegerField(default=0)
    f_target = CharField(50, null=True)
    f_reason = CharField(50, null=True)
    f_message = TextField(null=True)
    f_exit_code = IntegerField(null=True)
    f_caused_by = CharField(70, default="")
    f_ready_owner = CharField(64, default="")
    f_turn = IntegerField(default=0)
    f_claim = CharField(64, default="")
    f_claim_turn = IntegerField(default=0)
    f_claim_renewals = IntegerField(default=0)
    f_asked_cores = IntegerField(default=0)
    f_asked_memory = IntegerField(default=0)
    f_wait_reason = TextField(null=True)
    f_blocked_on = CharField(10, default="")
    f_blocked_cores = IntegerField(default=0)
    f_lacks = CharField(10, default="")
    f_retry_at = BigIntegerField(default=0)
    f_passes = IntegerField(default=0)
    f_conflicts = IntegerField(default=0)
    f_timeout_seconds = BigIntegerField(default=0)
    f_since = BigIntegerField(default=0)
    f_queued = BigIntegerField(default=0)
    f_stop_by = BigIntegerField(default=0)
    f_stop_now = BooleanField(default=False)
    f_unconfirmed_parties = TextField(null=True)
    f_partial = BooleanField(default=False)
    f_missing_parties = TextField(null=True)
    f_policy_timers = TextField(null=True)
    f_restarting = BooleanField(default=False)
    f_restarts = IntegerField(default=0)
    f_revision = IntegerField(default=0)
    f_changed_components = TextField(null=True)
    f_legacy = BooleanField(default=False)
    f_wish_since = BigIntegerField(default=0)
    f_wish_asked = BigIntegerField(default=0)
    f_wish_passes = IntegerField(default=0)
    f_approval = CharField(10, default="")
    f_approval_by = CharField(100, default="")
    f_approval_message = TextField(null=True)
    f_approval_time = BigIntegerField(default=0)
    f_apart = BooleanField(default=False)
    f_held = BooleanField(default=False)
    f_hold_message = TextField(null=True)
    f_hold_by = CharField(100, default="")
    f_hold_time = BigIntegerField(default=0)
    f_hold_since = BigIntegerField(default=0)
    f_priority = IntegerField(default=0)
    f_enqueued = BigIntegerField(default=0)
    f_queue_key = BigIntegerField(default=0)
    f_approval_digest = CharField(64, default="")
    f_ttl = IntegerField(null=True)
    f_lost_since = BigIntegerField(default=0)
    f_losses = IntegerField(default=0)
    f_format = CharField(20, default="fate_v1")
    f_document = TextField(null=True)
    f_gpus = IntegerField(default=0)
    f_asked_gpus = IntegerField(default=0)
    f_asked_engine = CharField(50, default="")
    f_elsewhere = TextField(null=True)
    f_asked_elsewhere = TextField(null=True)
    f_trace = CharField(32, default="")
    f_blocked_at = CharField(20, default="")
    f_passers = TextField(null=True)

    class Meta:
        table_name = "t_job"
        primary_key = CompositeKey("f_job_id", "f_role", "f_party_id")


class SeatRow(Base):
    f_job_id = CharField(25)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_run = IntegerField(default=0)
    f_status = CharField(20)
    f_message = TextField(null=True)
    f_asked_cores = IntegerField(default=0)
    f_free_cores = IntegerField(default=-1)
    f_lacks = CharField(10, default="")
    f_lease = BigIntegerField(default=0)
    f_renew_at = BigIntegerField(default=0)
    f_legacy = BooleanField(default=False)
    f_silent_since = BigIntegerField(default=0)
    f_approval = TextField(null=True)
    f_asks = TextField(null=True)
    f_short_at = CharField(20, default="")

    class Meta:
        table_name = "t_seat"
        primary_key = CompositeKey("f_job_id", "f_role", "f_party_id")


class TaskRow(Base):
    f_job_id = CharField(25)
    f_task_id = CharField(100)
    f_task_version = BigIntegerField()
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_create_time = BigIntegerField(null=True)
    f_create_date = DateTimeField(null=True)
    f_update_time = BigIntegerField(null=True)
    f_update_date = DateTimeField(null=True)
    f_component_name = CharField(100)
    f_component_module = CharField(200, null=True)
    f_initiator_role = CharField(50)
    f_initiator_party_id = CharField(50, default="-1")
    f_federated_mode = CharField(10)
    f_federated_status_collect_type = CharField(10)
    f_status = CharField(50)
    f_status_code = IntegerField(null=True)
    f_auto_retries = IntegerField(default=0)
    f_auto_retry_delay = IntegerField(default=0)
    f_run_on_this_party = BooleanField(default=False)
    f_worker_id = CharField(100, null=True)
    f_cmd = TextField(null=True)
    f_run_ip = CharField(100, null=True)
    f_run_port = IntegerField(null=True)
    f_run_pid = IntegerField(null=True)
    f_party_status = CharField(50)
    f_provider_info = TextField(null=True)
    f_component_parameters = TextField(null=True)
    f_engine_conf = TextField(null=True)
    f_kill_status = BooleanField(default=False)
    f_error_report = TextField(null=True)
    f_start_time = BigIntegerField(null=True)
    f_start_date = DateTimeField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_end_date = DateTimeField(null=True)
    f_elapsed = BigIntegerField(null=True)
    f_incarnation = CharField(64, default="")
    f_retry_at = BigIntegerField(default=0)
    f_errors = IntegerField(default=0)
    f_interruptions = IntegerField(default=0)
    f_tried_since = BigIntegerField(default=0)
    f_exit_code = IntegerField(null=True)
    f_caused_by = CharField(70, default="")
    f_without_parties = TextField(null=True)
    f_policy = CharField(20, default="")
    f_reason = CharField(50, null=True)
    f_message = TextField(null=True)
    f_target = CharField(50, null=True)
    f_federated_reason = CharField(50, null=True)
    f_federated_message = TextField(null=True)
    f_federated_exit_code = IntegerField(null=True)
    f_federated_caused_by = CharField(70, default="")
    f_federated_end_time = BigIntegerField(null=True)
    f_failed_workers = IntegerField(default=0)
    f_waits = CharField(500, default="")
    f_waits_since = BigIntegerField(default=0)
    f_begins_again = BooleanField(default=False)

    class Meta:
        table_name = "t_task"
        primary_key = CompositeKey("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id")


class WorkerRow(Base):
    f_worker_id = CharField(100, primary_key=True)
    f_worker_name = CharField(50)
    f_job_id = CharField(25)
    f_component_name = CharField(100)
    f_task_id = CharField(100)
    f_task_version = BigIntegerField()
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_run_ip = CharField(100, null=True)
    f_run_pid = IntegerField(null=True)
    f_create_time = BigIntegerField(null=True)
    f_start_time = BigIntegerField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_status = CharField(20)
    f_handle = TextField()
    f_stopping = BooleanField(default=False)
    f_since = BigIntegerField(default=0)
    f_slot = IntegerField(default=0)
    f_rank = IntegerField(null=True)
    f_attempt = IntegerField(default=0)
    f_reason = CharField(50, null=True)
    f_message = TextField(null=True)
    f_caused_by = CharField(70, default="")
    f_exit_status = CharField(50, default="")
    f_elastic = BooleanField(default=False)
    f_cores = IntegerField(default=0)
    f_memory = IntegerField(default=0)
    f_engine = CharField(50, default=LOCAL)
    f_gpus = IntegerField(default=0)
    f_devices = TextField(null=True)

    class Meta:
        table_name = "t_worker"


class OutboxRow(Base):
    f_id = BigAutoField()
    f_kind = CharField(30)
    f_job_id = CharField(25)
    f_role = CharField(50)
    f_party_id = CharField(10)
    f_run = IntegerField(default=0)
    f_component_name = CharField(100, default="")
    f_task_version = BigIntegerField(default=0)
    f_argument = CharField(50, default="")
    f_body = TextField()
    f_create_time = BigIntegerField()
    f_since = BigIntegerField(default=0)
    f_salt = CharField(64, default="")
    f_trace = CharField(32, default="")

    class Meta:
        table_name = "t_outbox"


class NotificationRow(Base):
    f_id = BigAutoField()
    f_message_id = CharField(40)
    f_channel = CharField(60)
    f_person = CharField(32)
    f_occasion = CharField(20)
    f_time = BigIntegerField()
    f_sentence = CharField(500)
    f_job_id = CharField(25)
    f_job_name = CharField(100)
    f_run = IntegerField()
    f_partner = CharField(10)
    f_status_then = CharField(50)
    f_reason = CharField(50)
    f_state = CharField(10, default="waiting")
    f_tries = IntegerField(default=0)
    f_error = CharField(300, default="")
    f_end_time = BigIntegerField(default=0)

    class Meta:
        table_name = "t_notification"


class NotificationChoiceRow(Base):
    f_person = CharField(32, primary_key=True)
    f_occasions = CharField(200)
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_notification_choice"


class HistoryRow(Base):
    f_id = BigAutoField()
    f_job_id = CharField(25)
    f_level = CharField(20)
    f_role = CharField(50, default="")
    f_party_id = CharField(10, default="")
    f_component_name = CharField(100, default="")
    f_task_version = BigIntegerField(default=0)
    f_old = CharField(50, default="")
    f_new = CharField(50)
    f_reason = CharField(50, default="")
    f_message = TextField(null=True)
    f_caused_by = CharField(70, default="")
    f_exit_status = CharField(50, default="")
    f_time = BigIntegerField()

    class Meta:
        table_name = "t_history"


class PeerRow(Base):
    f_party_id = CharField(10, primary_key=True)
    f_heard = BigIntegerField(default=0)
    f_silent_since = BigIntegerField(default=0)
    f_silence = CharField(400, default="")
    f_cut_off_since = BigIntegerField(default=0)
    f_cut_off = CharField(400, default="")
    f_silence_notified = BigIntegerField(default=0)

    class Meta:
        table_name = "t_peer"


class SchedulerRow(Base):
    f_name = CharField(20, primary_key=True)
    f_owner = CharField(64, default="")
    f_counter = BigIntegerField(default=0)
    f_steady = BigIntegerField(default=0)
    f_forgotten = BigIntegerField(default=0)

    class Meta:
        table_name = "t_scheduler"


class IntakeRow(Base):
    f_name = CharField(20, primary_key=True)
    f_message = TextField(null=True)
    f_by = CharField(100, default="")
    f_time = BigIntegerField(default=0)
    f_since = BigIntegerField(default=0)

    class Meta:
        table_name = "t_intake"


class BindingRow(Base):
    f_job_id = CharField(25, primary_key=True)
    f_initiator_role = CharField(50)
    f_initiator_party_id = CharField(50)
    f_parties = TextField()
    f_digest = CharField(64)
    f_revision = IntegerField()

    class Meta:
        table_name = "t_job_binding"


class SubmissionRow(Base):
    f_request_id = CharField(100, primary_key=True)
    f_job_id = CharField(25)
    f_digest = CharField(64)
    f_retcode = IntegerField(null=True)
    f_retmsg = TextField(null=True)
    f_create_time = BigIntegerField()
    f_by = CharField(32, default="")

    class Meta:
        table_name = "t_submission"


class StorageTableRow(Base):
    f_name = CharField(200)
    f_namespace = CharField(200)
    f_create_time = BigIntegerField(null=True)
    f_address = TextField()
    f_engine = CharField(100)
    f_partitions = IntegerField(null=True)
    f_id_delimiter = CharField(10, null=True)
    f_have_head = BooleanField(default=True)
    f_extend_sid = BooleanField(default=False)
    f_schema = TextField()
    f_count = BigIntegerField(null=True)
    f_replaced = BigIntegerField(default=0)
    f_origin = CharField(50, default="")
    f_disable = BooleanField(default=False)
    f_job_id = CharField(25, default="")

    class Meta:
        table_name = "t_storage_table_meta"
        primary_key = CompositeKey("f_namespace", "f_name")


class ConnectorRow(Base):
    f_name = CharField(200, primary_key=True)
    f_engine = CharField(100)
    f_connector_info = TextField()
    f_create_time = BigIntegerField(null=True)

    class Meta:
        table_name = "t_storage_connector"


MODELS = (
    ServerRow,
    JobRow,
    SeatRow,
    TaskRow,
    WorkerRow,
    EngineRow,
    OutboxRow,
    *(NotificationRow, NotificationChoiceRow),
    HistoryRow,
    PeerRow,
    SchedulerRow,
    IntakeRow,
    PermissionRow,
    PartyLimitsRow,
    TableUseRow,
    SiteKeyRow,
    PartyKeyRow,
    JoinedPartyRow,
    OldPartyKeyRow,
    PartyContactRow,
    BindingRow,
    SubmissionRow,
    StorageTableRow,
    ConnectorRow,
    OutputRow,
    MetricRow,
    SummaryRow,
    *(StoredModelRow, DeploymentRow, ModelTagRow, TaggedModelRow),
    RecordEntryRow,
    RecordBatchRow,
    RecordHeadRow,
    RecordCheckpointRow,
    WitnessedRow,
    QuestionRow,
    EvidenceRow,
    PersonRow,
    *(SegmentRow, SegmentJobRow),
)
