-- An approval that was given before its document was written down holds for no document: people are asked anew.
UPDATE t_job SET f_approval = 'pending', f_approval_by = '', f_approval_message = NULL, f_approval_time = 0
  WHERE f_approval = 'approved' AND f_approval_digest = '';

-- t_worker: by what its engine finds a worker, for no other part to read; of the local engine it is the folder. The start
-- time of the process is in that folder, too.
ALTER TABLE t_worker RENAME COLUMN f_folder TO f_handle;
ALTER TABLE t_worker DROP COLUMN f_run_pid_started;
