-- The store of models: what tasks of this party's jobs have made. Each row has a file below <home>/models/. Below: the record.

CREATE TABLE t_stored_model (
  f_model_id VARCHAR(100) NOT NULL,
  f_model_version BIGINT NOT NULL,
  f_role VARCHAR(50) NOT NULL,
  f_party_id VARCHAR(10) NOT NULL,
  f_component_name VARCHAR(100) NOT NULL,    -- the task that has made it
  f_output VARCHAR(60) NOT NULL,             -- its key for it; of several under one key, with _0, _1, ...
  f_kind VARCHAR(50) NOT NULL,               -- json_model, model_directory
  f_sha256 VARCHAR(64) NOT NULL,             -- of the file
  f_bytes BIGINT NOT NULL,
  f_job_id VARCHAR(25) NOT NULL,             -- that has made it
  f_initiator_party_id VARCHAR(10) NOT NULL, -- of that job
  f_task_version BIGINT NOT NULL,
  f_component_module VARCHAR(200) NOT NULL,
  f_roles LONGTEXT NOT NULL,                 -- JSON object: the party ids of that job by role
  f_metadata LONGTEXT NOT NULL,              -- JSON object: what the component says of it
  f_create_time BIGINT NOT NULL,
  PRIMARY KEY (f_model_id, f_model_version, f_role, f_party_id, f_component_name, f_output)
);
CREATE INDEX ix_stored_model_job ON t_stored_model (f_job_id);
CREATE TABLE t_model_deployment (            -- a selection of the tasks of a model, as FATE v1 deploys them
  f_name VARCHAR(25) NOT NULL PRIMARY KEY,   -- FATE's model_version of the deployed model
  f_model_id VARCHAR(100) NOT NULL,
  f_model_version BIGINT NOT NULL,
  f_document LONGTEXT NOT NULL,              -- JSON object: dsl of its prediction, component_parameters
  f_create_time BIGINT NOT NULL
);
CREATE INDEX ix_model_deployment ON t_model_deployment (f_model_id, f_model_version);
CREATE TABLE t_model_tag (
  f_name VARCHAR(100) NOT NULL PRIMARY KEY,
  f_description LONGTEXT NOT NULL,
  f_create_time BIGINT NOT NULL
);
CREATE TABLE t_tagged_model (
  f_name VARCHAR(100) NOT NULL,              -- of the tag
  f_model_id VARCHAR(100) NOT NULL,
  PRIMARY KEY (f_name, f_model_id)
);
CREATE INDEX ix_tagged_model ON t_tagged_model (f_model_id);

-- The record: what this party can prove later. Rows are only added; an entry gets its index in its log afterwards.
CREATE TABLE t_record_entry (
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_log VARCHAR(20) NOT NULL,                -- own, or with/<party id>
  f_epoch BIGINT NOT NULL DEFAULT 0,         -- of the log; 0 until it is sealed
  f_index BIGINT,                            -- in this epoch of the log; NULL until it is sealed
  f_kind VARCHAR(20) NOT NULL,
  f_job_id VARCHAR(25) NOT NULL DEFAULT '',
  f_time BIGINT NOT NULL,
  f_salt VARCHAR(64) NOT NULL DEFAULT '',    -- of its commitments, in hex; may be erased
  f_text LONGTEXT NOT NULL,                  -- what it commits to as message; may be erased
  f_content LONGTEXT NOT NULL                -- canonical JSON: these bytes are hashed
);
CREATE UNIQUE INDEX ix_record_entry_index ON t_record_entry (f_epoch, f_log, f_index);
CREATE INDEX ix_record_entry_job ON t_record_entry (f_job_id);
CREATE TABLE t_record_batch (                -- entries that got their indexes together
  f_log VARCHAR(20) NOT NULL,
  f_epoch BIGINT NOT NULL,
  f_first BIGINT NOT NULL,                   -- the first index
  f_ids LONGTEXT NOT NULL,                   -- JSON: f_id of the entries in order
  f_hashes LONGTEXT NOT NULL,                -- hashes of their leaves, in hex, one after the other
  f_time BIGINT NOT NULL,
  PRIMARY KEY (f_log, f_epoch, f_first)
);
CREATE TABLE t_record_head (                 -- the newest state of a log
  f_log VARCHAR(20) NOT NULL PRIMARY KEY,
  f_epoch BIGINT NOT NULL,
  f_size BIGINT NOT NULL,
  f_edge LONGTEXT NOT NULL                   -- roots of the complete subtrees, in hex, one after the other
);
CREATE TABLE t_record_checkpoint (           -- of a log, signed here
  f_log VARCHAR(20) NOT NULL,
  f_epoch BIGINT NOT NULL,
  f_size BIGINT NOT NULL,
  f_note LONGTEXT NOT NULL,                  -- with the cosignatures of other parties
  f_edge LONGTEXT NOT NULL,                  -- of the tree of this size, as in t_record_head
  f_time BIGINT NOT NULL,
  PRIMARY KEY (f_log, f_epoch, f_size)
);
CREATE TABLE t_record_witnessed (            -- the newest checkpoint of a log of another party that was cosigned here
  f_origin VARCHAR(255) NOT NULL PRIMARY KEY,
  f_size BIGINT NOT NULL,
  f_note LONGTEXT NOT NULL,
  f_time BIGINT NOT NULL
);
CREATE TABLE t_record_question (             -- the last questions of another party for what was cosigned here
  f_party_id VARCHAR(10) NOT NULL PRIMARY KEY,
  f_questions VARCHAR(600) NOT NULL          -- their ids, the newest first, with commas
);
CREATE TABLE t_record_evidence (             -- two checkpoints of another party that do not fit together
  f_origin VARCHAR(255) NOT NULL,
  f_size BIGINT NOT NULL,                    -- of the first one
  f_is_proof BOOLEAN NOT NULL,               -- the log has two pasts; else nobody has shown that they fit together
  f_party_id VARCHAR(10) NOT NULL,
  f_first LONGTEXT NOT NULL,                 -- the one that was cosigned here
  f_second LONGTEXT NOT NULL,
  f_shown LONGTEXT NOT NULL,                 -- hashes in hex: the other root of the first size, and the proof of that
  f_time BIGINT NOT NULL,
  PRIMARY KEY (f_origin, f_size, f_is_proof)
);
CREATE TABLE t_record_segment (              -- entries that lie in a file, and have no rows
  f_log VARCHAR(20) NOT NULL,
  f_epoch BIGINT NOT NULL,
  f_first BIGINT NOT NULL,                   -- the first index
  f_end BIGINT NOT NULL,                     -- the index after the last one
  f_first_id BIGINT NOT NULL,                -- the smallest f_id of its entries
  f_last_id BIGINT NOT NULL,
  f_newest BIGINT NOT NULL,                  -- the largest f_time of its entries
  f_has_texts BOOLEAN NOT NULL,              -- whether the file has texts or salts
  f_digest VARCHAR(64) NOT NULL,             -- SHA-256 of the file
  PRIMARY KEY (f_log, f_epoch, f_first)
);
CREATE INDEX ix_record_segment_first_id ON t_record_segment (f_first_id);
CREATE INDEX ix_record_segment_last_id ON t_record_segment (f_last_id);
CREATE TABLE t_record_segment_job (          -- which segments have entries about a job
  f_job_id VARCHAR(25) NOT NULL,
  f_log VARCHAR(20) NOT NULL,
  f_epoch BIGINT NOT NULL,
  f_first BIGINT NOT NULL,
  PRIMARY KEY (f_job_id, f_log, f_epoch, f_first)
);
CREATE TABLE t_record_person (               -- who is meant by the random ids in entries
  f_person_id VARCHAR(32) NOT NULL PRIMARY KEY,
  f_name VARCHAR(200) NOT NULL UNIQUE
);
ALTER TABLE t_outbox ADD COLUMN f_salt VARCHAR(64) NOT NULL DEFAULT '';    -- of the commitments of the record; hex
-- t_outbox: the id of the trace of the job of a command (W3C traceparent).
ALTER TABLE t_outbox ADD COLUMN f_trace VARCHAR(32) NOT NULL DEFAULT '';

-- GPUs beside cores and memory: of each engine, asked and held by a job, held by an elastic worker.
ALTER TABLE t_engine_registry ADD COLUMN f_gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE t_engine_registry ADD COLUMN f_remaining_gpus INTEGER NOT NULL DEFAULT 0 CHECK (f_remaining_gpus <= f_gpus);
ALTER TABLE t_job ADD COLUMN f_gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE t_job ADD COLUMN f_asked_gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE t_worker ADD COLUMN f_gpus INTEGER NOT NULL DEFAULT 0;
-- t_worker: JSON list of the devices that the engine has given to this worker. Until it has exited, no other gets them.
ALTER TABLE t_worker ADD COLUMN f_devices LONGTEXT;
-- t_job: the engine on which it reserves, where its queue decides that; empty: the default one.
ALTER TABLE t_job ADD COLUMN f_asked_engine VARCHAR(50) NOT NULL DEFAULT '';
-- t_job: what of its reservation, and of what it asks for, is on other engines of this party; JSON: [[engine, cores,
-- memory, GPUs]]. The columns beside have the sums over all engines.
ALTER TABLE t_job ADD COLUMN f_elsewhere LONGTEXT;
ALTER TABLE t_job ADD COLUMN f_asked_elsewhere LONGTEXT;
-- t_job: the id of its trace (W3C traceparent), the same at all its parties.
ALTER TABLE t_job ADD COLUMN f_trace VARCHAR(32) NOT NULL DEFAULT '';
-- Parties with several engines: at which of them a job waits, and what each seat asks where. Engines have tags, not names.
ALTER TABLE t_job ADD COLUMN f_blocked_at VARCHAR(20) NOT NULL DEFAULT '';  -- at which engine of f_blocked_on
-- t_job: the ids of the newest jobs that f_passes counts, newest first; JSON list. They go with f_passes.
ALTER TABLE t_job ADD COLUMN f_passers LONGTEXT;
ALTER TABLE t_seat ADD COLUMN f_asks LONGTEXT;                              -- JSON: cores by tag
ALTER TABLE t_seat ADD COLUMN f_short_at VARCHAR(20) NOT NULL DEFAULT '';   -- the engine that had too little
DROP INDEX ix_job_queue ON t_job;
CREATE INDEX ix_job_queue ON t_job
  (f_is_initiator, f_status, f_apart, f_blocked_on, f_blocked_at, f_queue_key, f_create_time);
ALTER TABLE t_task ADD COLUMN f_waits VARCHAR(500) NOT NULL DEFAULT '';    -- what a share that has not begun waits for
ALTER TABLE t_task ADD COLUMN f_waits_since BIGINT NOT NULL DEFAULT 0;      -- steady time
-- t_task, at the initiator: when this version was stopped, the task was to begin again.
ALTER TABLE t_task ADD COLUMN f_begins_again BOOLEAN NOT NULL DEFAULT 0;
CREATE TABLE t_server (                      -- the servers of this party, if it has several
  f_name VARCHAR(32) NOT NULL PRIMARY KEY,
  f_sign VARCHAR(64) NOT NULL,               -- random, of its last start; in a file of the shared folder, too
  f_shared_home LONGTEXT NOT NULL            -- its path
);

-- Notifications: written with what they are about, sent afterwards. One row for each target.
CREATE TABLE t_notification (
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_message_id VARCHAR(40) NOT NULL,         -- the same for all targets, and for an occurrence that is found again
  f_channel VARCHAR(60) NOT NULL,            -- email, or webhook/<name>
  f_person VARCHAR(32) NOT NULL,             -- empty: a webhook that is nobody's
  f_occasion VARCHAR(20) NOT NULL,
  f_time BIGINT NOT NULL,
  f_sentence VARCHAR(500) NOT NULL,
  f_job_id VARCHAR(25) NOT NULL,
  f_job_name VARCHAR(100) NOT NULL,
  f_run INTEGER NOT NULL,
  f_partner VARCHAR(10) NOT NULL,
  f_status_then VARCHAR(50) NOT NULL,        -- of the job or the partner
  f_reason VARCHAR(50) NOT NULL,
  f_state VARCHAR(10) NOT NULL DEFAULT 'waiting' CHECK (f_state IN ('waiting', 'sent', 'dropped')),
  f_tries INTEGER NOT NULL DEFAULT 0,
  f_error VARCHAR(300) NOT NULL DEFAULT '',  -- of the last try
  f_end_time BIGINT NOT NULL DEFAULT 0       -- when it was sent or dropped
);
CREATE UNIQUE INDEX ix_notification_target ON t_notification (f_message_id, f_channel, f_person);
CREATE INDEX ix_notification_state ON t_notification (f_state, f_channel, f_tries, f_id);
CREATE TABLE t_notification_choice (         -- of what the configuration gives a person, what this person has chosen
  f_person VARCHAR(32) NOT NULL PRIMARY KEY,
  f_occasions VARCHAR(200) NOT NULL,         -- with commas; empty: none
  f_time BIGINT NOT NULL
);
ALTER TABLE t_submission ADD COLUMN f_by VARCHAR(32) NOT NULL DEFAULT '';       -- the client that has signed it
ALTER TABLE t_peer ADD COLUMN f_silence_notified BIGINT NOT NULL DEFAULT 0;     -- when people were; 0: since, it answers
-- The list of uploads, newest first: without it all metrics of all jobs are read.
CREATE INDEX ix_metric_namespace ON t_tracking_metric (f_metric_namespace);
-- The tasks of a job by name and by component: without them a search reads all tasks of each job that it looks at.
CREATE INDEX ix_task_name ON t_task (f_job_id, f_component_name);
CREATE INDEX ix_task_module ON t_task (f_job_id, f_component_module);
-- The lists of tables, newest first: in the order of each, so that a page reads its rows alone.
DROP INDEX ix_table_age ON t_storage_table_meta;
CREATE INDEX ix_table_age ON t_storage_table_meta (f_origin, f_create_time, f_namespace, f_name);
CREATE INDEX ix_table_namespace ON t_storage_table_meta (f_namespace, f_origin, f_create_time, f_name);
