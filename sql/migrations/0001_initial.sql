-- The first schema. Names of tables and columns are FATE's wherever FATE has one (t_job.f_ready_signal,
-- t_engine_registry.f_remaining_cores, ...); what FATE lacks stands beside. Times are milliseconds since the epoch,
-- dates the same moment as local text, memory is MB.
--
-- One file for SQLite and for MySQL/MariaDB. What differs is written for MySQL and translated for SQLite by
-- fate_flow/store/migrations.py: AUTO_INCREMENT and the table options.

CREATE TABLE t_job (
  f_job_id VARCHAR(25) NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_create_time BIGINT,
  f_create_date DATETIME,
  f_update_time BIGINT,
  f_update_date DATETIME,
  f_user_id VARCHAR(25),
  f_name VARCHAR(500) DEFAULT '',
  f_description LONGTEXT,
  f_tag VARCHAR(50) DEFAULT '',              -- job_end, submit_failed
  f_dsl LONGTEXT NOT NULL,
  f_runtime_conf LONGTEXT NOT NULL,          -- as submitted, or changed since
  f_runtime_conf_on_party LONGTEXT NOT NULL, -- with this party's effective job parameters
  f_train_runtime_conf LONGTEXT,
  f_roles LONGTEXT NOT NULL,                 -- {role: [party ids, as numbers]}
  f_initiator_role VARCHAR(50) NOT NULL,
  f_initiator_party_id VARCHAR(50) NOT NULL,
  f_status VARCHAR(50) NOT NULL,
  f_status_code INTEGER,
  f_user LONGTEXT,
  f_is_initiator BOOLEAN NOT NULL DEFAULT 0,
  f_progress INTEGER NOT NULL DEFAULT 0,     -- percent
  f_ready_signal BOOLEAN NOT NULL DEFAULT 0, -- a scheduler works on it
  f_ready_time BIGINT,
  f_cancel_signal BOOLEAN NOT NULL DEFAULT 0,
  f_cancel_time BIGINT,
  f_rerun_signal BOOLEAN NOT NULL DEFAULT 0, -- it waits again, and its turn has not come: not every party knows, or f_retry_at is not there
  f_end_scheduling_updates INTEGER NOT NULL DEFAULT 0,
  f_engine_name VARCHAR(50),
  f_engine_type VARCHAR(10),
  f_cores INTEGER NOT NULL DEFAULT 0,        -- reserved for this job here
  f_memory INTEGER NOT NULL DEFAULT 0,
  f_remaining_cores INTEGER NOT NULL DEFAULT 0,
  f_remaining_memory INTEGER NOT NULL DEFAULT 0,
  f_resource_in_use BOOLEAN NOT NULL DEFAULT 0,
  f_apply_resource_time BIGINT,
  f_return_resource_time BIGINT,
  f_inheritance_info LONGTEXT,
  f_inheritance_status VARCHAR(50),
  f_start_time BIGINT,
  f_start_date DATETIME,
  f_end_time BIGINT,
  f_end_date DATETIME,
  f_elapsed BIGINT,
  -- beside FATE's columns
  f_run INTEGER NOT NULL DEFAULT 0,          -- how often it was rerun
  f_target VARCHAR(50),                      -- where `stopping` leads
  f_reason VARCHAR(50),                      -- why it ended, or is to end
  f_message LONGTEXT,
  f_exit_code INTEGER,                       -- of the worker that is the cause, where one is
  f_caused_by VARCHAR(70) NOT NULL DEFAULT '',
  f_ready_owner VARCHAR(64) NOT NULL DEFAULT '', -- the scheduler that set the ready signal
  f_turn INTEGER NOT NULL DEFAULT 0,         -- how often it has asked for resources
  f_claim VARCHAR(64) NOT NULL DEFAULT '',   -- token of the reservation; empty: nothing is held
  f_claim_turn INTEGER NOT NULL DEFAULT 0,
  f_claim_renewals INTEGER NOT NULL DEFAULT 0, -- how often it was asked for again; observers watch it stand still
  f_asked_cores INTEGER NOT NULL DEFAULT 0,
  f_asked_memory INTEGER NOT NULL DEFAULT 0,
  f_wait_reason LONGTEXT,
  f_blocked_on VARCHAR(10) NOT NULL DEFAULT '', -- the party whose cores it lacks
  f_blocked_cores INTEGER NOT NULL DEFAULT 0,
  f_lacks VARCHAR(10) NOT NULL DEFAULT '',   -- what it lacks there: room, size, answer, approval
  f_retry_at BIGINT NOT NULL DEFAULT 0,      -- steady time (t_scheduler): not asked for again before
  f_passes INTEGER NOT NULL DEFAULT 0,       -- later jobs that took what it lacks
  f_conflicts INTEGER NOT NULL DEFAULT 0,
  f_timeout_seconds BIGINT NOT NULL DEFAULT 0,
  f_since BIGINT NOT NULL DEFAULT 0,         -- steady time at which it was created, or begun again
  f_queued BIGINT NOT NULL DEFAULT 0,        -- steady time from which on it waits for cores
  f_stop_by BIGINT NOT NULL DEFAULT 0,       -- steady time: the drain ends here at the latest
  f_stop_now BOOLEAN NOT NULL DEFAULT 0,     -- a wish: what drains is to be killed now
  f_unconfirmed_parties LONGTEXT,
  f_partial BOOLEAN NOT NULL DEFAULT 0,      -- it succeeded without some of its parties
  f_missing_parties LONGTEXT,                -- those
  f_policy_timers LONGTEXT,                  -- {what has happened: steady time at which its policy acts}
  f_restarting BOOLEAN NOT NULL DEFAULT 0,   -- a policy begins all its tasks again; what runs is still ending
  f_restarts INTEGER NOT NULL DEFAULT 0,     -- how often one did, in this run
  f_revision INTEGER NOT NULL DEFAULT 0,     -- how often its parameters were changed since it was submitted
  f_changed_components LONGTEXT,             -- those whose own ones were, since the present run began
  f_legacy BOOLEAN NOT NULL DEFAULT 0,       -- the initiator speaks plain v1
  f_wish_since BIGINT NOT NULL DEFAULT 0,    -- steady time at which there was no room for it here first; 0: never
  f_wish_asked BIGINT NOT NULL DEFAULT 0,    -- steady time at which it was asked for last since then
  f_wish_passes INTEGER NOT NULL DEFAULT 0,  -- others that have taken since what it lacks here
  f_approval VARCHAR(10) NOT NULL DEFAULT '', -- of this party, for a job of another: pending, approved, rejected
  f_approval_by VARCHAR(100) NOT NULL DEFAULT '',
  f_approval_message LONGTEXT,
  f_approval_time BIGINT NOT NULL DEFAULT 0,
  f_apart BOOLEAN NOT NULL DEFAULT 0,        -- it waits and room would not help: held, or lacks size or approval
  f_held BOOLEAN NOT NULL DEFAULT 0,         -- it waits and has no turn until somebody releases it
  f_hold_message LONGTEXT,
  f_hold_by VARCHAR(100) NOT NULL DEFAULT '',
  f_hold_time BIGINT NOT NULL DEFAULT 0,
  f_hold_since BIGINT NOT NULL DEFAULT 0,    -- steady time
  f_priority INTEGER NOT NULL DEFAULT 0,     -- higher first
  f_enqueued BIGINT NOT NULL DEFAULT 0,      -- steady time at which it was created
  f_queue_key BIGINT NOT NULL DEFAULT 0,     -- where it stands: f_enqueued less a span of time for each level of priority
  PRIMARY KEY (f_job_id, f_role, f_party_id),
  CONSTRAINT ck_job_status CHECK (f_status IN
    ('ready', 'waiting', 'running', 'stopping', 'success', 'failed', 'canceled', 'timeout')),
  CONSTRAINT ck_job_lacks CHECK (f_lacks IN ('', 'room', 'size', 'answer', 'approval')),
  CONSTRAINT ck_job_approval CHECK (f_approval IN ('', 'pending', 'approved', 'rejected')),
  CONSTRAINT ck_job_reason CHECK (f_status NOT IN ('success', 'failed', 'canceled', 'timeout') OR f_reason IS NOT NULL),
  CONSTRAINT ck_job_ended CHECK
    ((f_end_time IS NOT NULL) = (f_status IN ('success', 'failed', 'canceled', 'timeout'))),
  CONSTRAINT ck_job_holds CHECK (f_resource_in_use = (f_claim <> '')),
  CONSTRAINT ck_job_final CHECK (f_status NOT IN ('success', 'failed', 'canceled', 'timeout') OR f_claim = '')
);
CREATE INDEX ix_job_queue ON t_job (f_is_initiator, f_status, f_apart, f_blocked_on, f_queue_key, f_create_time);
CREATE INDEX ix_job_order ON t_job (f_is_initiator, f_status, f_queue_key, f_create_time);
CREATE INDEX ix_job_approval ON t_job (f_approval, f_status, f_create_time);
CREATE INDEX ix_job_lacks ON t_job (f_is_initiator, f_status, f_lacks, f_retry_at);
CREATE INDEX ix_job_wish ON t_job (f_status, f_wish_asked);
CREATE INDEX ix_job_turn ON t_job (f_ready_signal, f_is_initiator, f_status);
CREATE INDEX ix_job_tag ON t_job (f_tag);
-- The orders of lists. With the primary key behind it, what is left out of all lists, the status and what tells whether
-- a row may still change, an index says alone which rows a page has: those that are passed over are not read.
CREATE INDEX ix_job_status ON t_job (f_status, f_create_time, f_job_id, f_role, f_party_id, f_tag, f_end_time);
CREATE INDEX ix_job_created ON t_job (f_create_time, f_job_id, f_role, f_party_id, f_tag, f_status, f_end_time);
CREATE INDEX ix_job_started ON t_job (f_start_time, f_job_id, f_role, f_party_id, f_tag, f_status, f_end_time);
CREATE INDEX ix_job_ended ON t_job
  (f_end_time, f_job_id, f_role, f_party_id, f_tag, f_status, f_create_time, f_start_time, f_elapsed);
CREATE INDEX ix_job_elapsed ON t_job (f_elapsed, f_job_id, f_role, f_party_id, f_tag, f_status, f_end_time);

CREATE TABLE t_seat (                        -- the initiator's knowledge of each party of a job
  f_job_id VARCHAR(25) NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_run INTEGER NOT NULL DEFAULT 0,
  f_status VARCHAR(20) NOT NULL,
  f_message LONGTEXT,
  f_asked_cores INTEGER NOT NULL DEFAULT 0,
  f_free_cores INTEGER NOT NULL DEFAULT -1,
  f_lacks VARCHAR(10) NOT NULL DEFAULT '',   -- what the party lacks that refused: room, size, answer; or its approval
  f_lease BIGINT NOT NULL DEFAULT 0,         -- milliseconds that the party keeps what it holds; 0: it did not say
  f_renew_at BIGINT NOT NULL DEFAULT 0,      -- steady time: asked for again then, so that the lease goes on
  f_legacy BOOLEAN NOT NULL DEFAULT 0,       -- the party speaks plain v1
  f_silent_since BIGINT NOT NULL DEFAULT 0,  -- steady time since which the party counts as silent; 0: it answers
  f_approval LONGTEXT,                       -- with which words the party has approved the job, where it had to
  PRIMARY KEY (f_job_id, f_role, f_party_id),
  CONSTRAINT ck_seat_lacks CHECK (f_lacks IN ('', 'room', 'size', 'answer', 'approval')),
  CONSTRAINT ck_seat_status CHECK (f_status IN ('joining', 'joined', 'refused', 'checking', 'applying', 'held',
    'starting', 'started', 'stopping', 'draining', 'leaving', 'left', 'unconfirmed'))
);
CREATE INDEX ix_seat_live ON t_seat (f_status, f_party_id);

CREATE TABLE t_task (
  f_job_id VARCHAR(25) NOT NULL,
  f_task_id VARCHAR(100) NOT NULL,
  f_task_version BIGINT NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_create_time BIGINT,
  f_create_date DATETIME,
  f_update_time BIGINT,
  f_update_date DATETIME,
  f_component_name VARCHAR(100) NOT NULL,
  f_component_module VARCHAR(200),
  f_initiator_role VARCHAR(50) NOT NULL,
  f_initiator_party_id VARCHAR(50) NOT NULL DEFAULT '-1',
  f_federated_mode VARCHAR(10) NOT NULL,
  f_federated_status_collect_type VARCHAR(10) NOT NULL,
  f_status VARCHAR(50) NOT NULL,             -- federated
  f_status_code INTEGER,
  f_auto_retries INTEGER NOT NULL DEFAULT 0, -- left
  f_auto_retry_delay INTEGER NOT NULL DEFAULT 0,
  f_run_on_this_party BOOLEAN NOT NULL DEFAULT 0, -- 0: a row the initiator holds for another party
  f_worker_id VARCHAR(100),
  f_cmd LONGTEXT,
  f_run_ip VARCHAR(100),
  f_run_port INTEGER,
  f_run_pid INTEGER,
  f_party_status VARCHAR(50) NOT NULL,       -- what this party saw of its own share
  f_provider_info LONGTEXT,
  f_component_parameters LONGTEXT,
  f_engine_conf LONGTEXT,
  f_kill_status BOOLEAN NOT NULL DEFAULT 0,
  f_error_report LONGTEXT,
  f_start_time BIGINT,
  f_start_date DATETIME,
  f_end_time BIGINT,
  f_end_date DATETIME,
  f_elapsed BIGINT,
  -- beside FATE's columns
  f_incarnation VARCHAR(64) NOT NULL DEFAULT '', -- of this version, the same at all parties
  f_retry_at BIGINT NOT NULL DEFAULT 0,      -- steady time: not started before
  f_errors INTEGER NOT NULL DEFAULT 0,       -- earlier versions that ended by an error or a timeout
  f_interruptions INTEGER NOT NULL DEFAULT 0, -- earlier versions that were interrupted
  f_tried_since BIGINT NOT NULL DEFAULT 0,   -- steady time at which the first of them ended
  f_exit_code INTEGER,                       -- of the worker, where there is one and it is known here
  f_caused_by VARCHAR(70) NOT NULL DEFAULT '', -- the party that is the cause of the reason
  f_without_parties LONGTEXT,                -- parties that were missing when this share was started
  f_policy VARCHAR(20) NOT NULL DEFAULT '',  -- what a policy has decided about this version; at other parties restart_task: it begins again
  f_reason VARCHAR(50),
  f_message LONGTEXT,
  f_target VARCHAR(50),
  f_federated_reason VARCHAR(50),            -- of the task over all its parties, as its initiator says
  f_federated_message LONGTEXT,
  f_federated_exit_code INTEGER,             -- of the worker that is the cause
  f_federated_caused_by VARCHAR(70) NOT NULL DEFAULT '',
  f_federated_end_time BIGINT,
  PRIMARY KEY (f_job_id, f_task_id, f_task_version, f_role, f_party_id),
  CONSTRAINT ck_task_federated_reason CHECK
    (f_status NOT IN ('pass', 'success', 'failed', 'canceled', 'timeout') OR f_federated_reason IS NOT NULL),
  CONSTRAINT ck_task_federated_ended CHECK
    ((f_federated_end_time IS NOT NULL) = (f_status IN ('pass', 'success', 'failed', 'canceled', 'timeout'))),
  CONSTRAINT ck_task_status CHECK (f_status IN
    ('waiting', 'running', 'stopping', 'pass', 'success', 'failed', 'canceled', 'timeout')),
  CONSTRAINT ck_task_party_status CHECK (f_party_status IN
    ('waiting', 'running', 'stopping', 'pass', 'success', 'failed', 'canceled', 'timeout')),
  CONSTRAINT ck_task_ended CHECK
    ((f_end_time IS NOT NULL) = (f_party_status IN ('pass', 'success', 'failed', 'canceled', 'timeout')))
);
CREATE INDEX ix_task_status ON t_task (f_status, f_create_time, f_job_id, f_task_id, f_task_version, f_role, f_party_id);
CREATE INDEX ix_task_created ON t_task
  (f_create_time, f_job_id, f_task_id, f_task_version, f_role, f_party_id, f_component_name, f_start_time, f_end_time, f_elapsed);
CREATE INDEX ix_task_started ON t_task
  (f_start_time, f_job_id, f_task_id, f_task_version, f_role, f_party_id, f_component_name, f_create_time);
CREATE INDEX ix_task_ended ON t_task
  (f_end_time, f_job_id, f_task_id, f_task_version, f_role, f_party_id, f_component_name, f_create_time);
CREATE INDEX ix_task_elapsed ON t_task
  (f_elapsed, f_job_id, f_task_id, f_task_version, f_role, f_party_id, f_component_name, f_create_time);

CREATE TABLE t_worker (
  f_worker_id VARCHAR(100) NOT NULL PRIMARY KEY,
  f_worker_name VARCHAR(50) NOT NULL,
  f_job_id VARCHAR(25) NOT NULL,
  f_component_name VARCHAR(100) NOT NULL,
  f_task_id VARCHAR(100) NOT NULL,
  f_task_version BIGINT NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_run_ip VARCHAR(100),
  f_run_pid INTEGER,
  f_create_time BIGINT,
  f_start_time BIGINT,
  f_end_time BIGINT,
  -- beside FATE's columns
  f_status VARCHAR(20) NOT NULL,
  f_folder LONGTEXT NOT NULL,
  f_run_pid_started BIGINT NOT NULL DEFAULT 0, -- with the pid, the identity of the process
  f_stopping BOOLEAN NOT NULL DEFAULT 0,
  f_since BIGINT NOT NULL DEFAULT 0,           -- steady time at which it was ordered
  f_slot INTEGER NOT NULL DEFAULT 0,           -- which of the workers of its party task it is
  f_rank INTEGER,                              -- its number among those that count; null: spare
  f_attempt INTEGER NOT NULL DEFAULT 0,        -- which process this is in its slot
  f_reason VARCHAR(50),                        -- how it ended, or why it was told to stop
  f_message LONGTEXT,
  f_caused_by VARCHAR(70) NOT NULL DEFAULT '', -- the party that is the cause of it
  f_exit_status VARCHAR(50) NOT NULL DEFAULT '',
  f_elastic BOOLEAN NOT NULL DEFAULT 0,        -- it holds f_cores and f_memory beside the claim of its job, until it has exited
  f_cores INTEGER NOT NULL DEFAULT 0,
  f_memory INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT ck_worker_status CHECK (f_status IN ('created', 'running', 'exited')),
  CONSTRAINT ck_worker_reason CHECK (f_status <> 'exited' OR (f_reason IS NOT NULL AND f_caused_by <> ''))
);
CREATE INDEX ix_worker_status ON t_worker (f_status);
CREATE INDEX ix_worker_job ON t_worker (f_job_id);

CREATE TABLE t_engine_registry (
  f_engine_type VARCHAR(10) NOT NULL,
  f_engine_name VARCHAR(50) NOT NULL,
  f_create_time BIGINT,
  f_create_date DATETIME,
  f_update_time BIGINT,
  f_update_date DATETIME,
  f_engine_entrance VARCHAR(50),
  f_engine_config LONGTEXT,
  f_cores INTEGER NOT NULL,
  f_memory INTEGER NOT NULL,
  f_remaining_cores INTEGER NOT NULL,
  f_remaining_memory INTEGER NOT NULL,
  f_nodes INTEGER NOT NULL,
  PRIMARY KEY (f_engine_name, f_engine_type),
  CONSTRAINT ck_engine_remaining CHECK (f_remaining_cores <= f_cores AND f_remaining_memory <= f_memory)
);

CREATE TABLE t_outbox (                      -- what is still to be said to other parties
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_kind VARCHAR(30) NOT NULL,
  f_job_id VARCHAR(25) NOT NULL,
  f_role VARCHAR(50) NOT NULL,               -- to whom
  f_party_id VARCHAR(10) NOT NULL,
  f_run INTEGER NOT NULL DEFAULT 0,
  f_component_name VARCHAR(100) NOT NULL DEFAULT '',
  f_task_version BIGINT NOT NULL DEFAULT 0,
  f_argument VARCHAR(50) NOT NULL DEFAULT '',
  f_body LONGTEXT NOT NULL,
  f_create_time BIGINT NOT NULL,
  f_since BIGINT NOT NULL DEFAULT 0          -- steady time at which it was stored
);
CREATE INDEX ix_outbox_job ON t_outbox (f_job_id);

CREATE TABLE t_history (                     -- every move of every job, as this party saw it
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_job_id VARCHAR(25) NOT NULL,
  f_level VARCHAR(20) NOT NULL,              -- what moved: job, seat, task, party task, worker
  f_role VARCHAR(50) NOT NULL DEFAULT '',
  f_party_id VARCHAR(10) NOT NULL DEFAULT '',
  f_component_name VARCHAR(100) NOT NULL DEFAULT '',
  f_task_version BIGINT NOT NULL DEFAULT 0,
  f_old VARCHAR(50) NOT NULL DEFAULT '',
  f_new VARCHAR(50) NOT NULL,
  f_reason VARCHAR(50) NOT NULL DEFAULT '',
  f_message LONGTEXT,
  f_caused_by VARCHAR(70) NOT NULL DEFAULT '',
  f_exit_status VARCHAR(50) NOT NULL DEFAULT '',
  f_time BIGINT NOT NULL
);
CREATE INDEX ix_history_job ON t_history (f_job_id);

CREATE TABLE t_peer (                        -- other parties' servers
  f_party_id VARCHAR(10) NOT NULL PRIMARY KEY,
  f_heard BIGINT NOT NULL DEFAULT 0          -- counts its heartbeats; observers watch it stand still
);

CREATE TABLE t_scheduler (                   -- which process schedules
  f_name VARCHAR(20) NOT NULL PRIMARY KEY,
  f_owner VARCHAR(64) NOT NULL DEFAULT '',
  f_counter BIGINT NOT NULL DEFAULT 0,       -- counts its transactions; observers watch it stand still
  f_steady BIGINT NOT NULL DEFAULT 0,        -- milliseconds that schedulers of this party have watched, in all
  f_forgotten BIGINT NOT NULL DEFAULT 0      -- counts what changes in old rows that lists were counted by: removals, reruns, notes
);

CREATE TABLE t_intake (                      -- one row while this party takes no reservations of new jobs
  f_name VARCHAR(20) NOT NULL PRIMARY KEY,
  f_message LONGTEXT,
  f_by VARCHAR(100) NOT NULL DEFAULT '',
  f_time BIGINT NOT NULL DEFAULT 0,
  f_since BIGINT NOT NULL DEFAULT 0          -- steady time
);

CREATE TABLE t_permission (                  -- what jobs of another party may use here, where that is looked at
  f_party_id VARCHAR(10) NOT NULL,           -- whose jobs
  f_kind VARCHAR(20) NOT NULL,
  f_namespace VARCHAR(200) NOT NULL DEFAULT '', -- of a dataset
  f_name VARCHAR(200) NOT NULL,              -- of a component or table; * for all
  PRIMARY KEY (f_party_id, f_kind, f_namespace, f_name),
  CONSTRAINT ck_permission_kind CHECK (f_kind IN ('component', 'dataset'))
);

CREATE TABLE t_site_key_info (               -- what the signatures of other parties are checked with
  f_party_id VARCHAR(10) NOT NULL,
  f_key_name VARCHAR(10) NOT NULL DEFAULT 'public', -- FATE keeps private ones here, too
  f_key LONGTEXT NOT NULL,                   -- PEM
  f_key_id VARCHAR(64) NOT NULL,             -- SHA-256 of its DER form
  f_update_time BIGINT NOT NULL,
  PRIMARY KEY (f_party_id, f_key_name),
  CONSTRAINT ck_site_key_name CHECK (f_key_name = 'public')
);

CREATE TABLE t_submission (                  -- one per submit that is not refused
  f_request_id VARCHAR(100) NOT NULL PRIMARY KEY,
  f_job_id VARCHAR(25) NOT NULL,
  f_digest VARCHAR(64) NOT NULL,             -- of the submitted content
  f_retcode INTEGER,                         -- NULL: not decided yet
  f_retmsg LONGTEXT,
  f_create_time BIGINT NOT NULL
);
CREATE INDEX ix_submission_job ON t_submission (f_job_id);

CREATE TABLE t_storage_table_meta (
  f_name VARCHAR(200) NOT NULL,
  f_namespace VARCHAR(200) NOT NULL,
  f_create_time BIGINT,
  f_address LONGTEXT NOT NULL,
  f_engine VARCHAR(100) NOT NULL,
  f_partitions INTEGER,
  f_id_delimiter VARCHAR(10),
  f_have_head BOOLEAN NOT NULL DEFAULT 1,
  f_extend_sid BOOLEAN NOT NULL DEFAULT 0,   -- its ids were made up
  f_schema LONGTEXT NOT NULL,
  f_count BIGINT,
  f_replaced BIGINT NOT NULL DEFAULT 0,      -- rows that gave way to a later one of the same id
  f_origin VARCHAR(50) NOT NULL DEFAULT '',  -- upload, output, writer
  f_disable BOOLEAN NOT NULL DEFAULT 0,
  f_job_id VARCHAR(25) NOT NULL DEFAULT '',  -- the job that wrote it
  PRIMARY KEY (f_namespace, f_name)
);
CREATE INDEX ix_table_age ON t_storage_table_meta (f_origin, f_create_time);

CREATE TABLE t_storage_connector (           -- where files of this machine lie that clients name by it
  f_name VARCHAR(200) NOT NULL PRIMARY KEY,
  f_engine VARCHAR(100) NOT NULL,
  f_connector_info LONGTEXT NOT NULL,        -- {"path": ...}; no passwords
  f_create_time BIGINT
);

CREATE TABLE t_tracking_output_data_info (
  f_job_id VARCHAR(25) NOT NULL,
  f_component_name VARCHAR(100) NOT NULL,
  f_task_id VARCHAR(100) NOT NULL,
  f_task_version BIGINT NOT NULL,
  f_data_name VARCHAR(30) NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_table_name VARCHAR(500),
  f_table_namespace VARCHAR(500),
  f_written_by VARCHAR(25) NOT NULL DEFAULT '',      -- the job that had written the table when it was handed on
  f_description LONGTEXT,
  f_create_time BIGINT,
  PRIMARY KEY (f_job_id, f_task_id, f_task_version, f_data_name, f_role, f_party_id)
);

CREATE TABLE t_tracking_metric (
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_job_id VARCHAR(25) NOT NULL,
  f_component_name VARCHAR(100) NOT NULL,
  f_task_id VARCHAR(100),
  f_task_version BIGINT,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_metric_namespace VARCHAR(180) NOT NULL,
  f_metric_name VARCHAR(180) NOT NULL,
  f_data LONGTEXT NOT NULL,                  -- [[key, value], ...]
  f_meta LONGTEXT NOT NULL,                  -- {}
  f_create_time BIGINT
);
CREATE INDEX ix_metric_job ON t_tracking_metric (f_job_id, f_component_name);

CREATE TABLE t_component_summary (
  f_job_id VARCHAR(25) NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_component_name VARCHAR(100) NOT NULL,
  f_task_id VARCHAR(100) NOT NULL,
  f_task_version BIGINT NOT NULL,
  f_summary LONGTEXT NOT NULL,
  f_create_time BIGINT,
  PRIMARY KEY (f_job_id, f_task_id, f_task_version, f_role, f_party_id)
);
