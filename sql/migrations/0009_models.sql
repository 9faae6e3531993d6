-- The store of models: what tasks of this party's jobs have made. Each row has a file below <home>/models/.

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
