-- An approval that was given before its document was written down holds for no document: people are asked anew.
UPDATE t_job SET f_approval = 'pending', f_approval_by = '', f_approval_message = NULL, f_approval_time = 0
  WHERE f_approval = 'approved' AND f_approval_digest = '';

-- t_worker: by what its engine finds a worker, for no other part to read; of the local engine it is the folder. The start
-- time of the process is in that folder, too.
ALTER TABLE t_worker RENAME COLUMN f_folder TO f_handle;
ALTER TABLE t_worker DROP COLUMN f_run_pid_started;
-- t_worker: the name of its engine.
ALTER TABLE t_worker ADD COLUMN f_engine VARCHAR(50) NOT NULL DEFAULT 'local';
-- t_job: the format of its document. Only a document of another format than FATE's own two is in f_document, with the
-- defaults of its initiator's server: {"body": ..., "defaults": ...}. f_dsl and f_runtime_conf show its job in FATE's form.
ALTER TABLE t_job ADD COLUMN f_format VARCHAR(20) NOT NULL DEFAULT 'fate_v1';
ALTER TABLE t_job ADD COLUMN f_document LONGTEXT;
