-- Limits of what jobs of another party may use here. Each limit is looked at whether or not the configuration requires grants.

-- t_permission: limits of a table, as a JSON object: columns (list), uses_a_day; NULL: none.
ALTER TABLE t_permission ADD COLUMN f_limits LONGTEXT;
CREATE TABLE t_party_limits (                -- limits of all jobs of another party, and who changed its grants last
  f_party_id VARCHAR(10) NOT NULL PRIMARY KEY,
  f_limits LONGTEXT NOT NULL,                -- JSON object: cores, approval
  f_by VARCHAR(100) NOT NULL DEFAULT '',
  f_time BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE t_table_use (                   -- starts of tasks of another party's jobs that read a table with uses_a_day
  f_party_id VARCHAR(10) NOT NULL,           -- whose jobs
  f_namespace VARCHAR(200) NOT NULL,
  f_name VARCHAR(200) NOT NULL,
  f_share VARCHAR(120) NOT NULL,             -- job id, task, version, role and party id of the seat
  f_time BIGINT NOT NULL,
  PRIMARY KEY (f_party_id, f_namespace, f_name, f_share)
);
