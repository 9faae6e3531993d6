-- An approval that was given before its document was written down holds for no document: people are asked anew.
UPDATE t_job SET f_approval = 'pending', f_approval_by = '', f_approval_message = NULL, f_approval_time = 0
  WHERE f_approval = 'approved' AND f_approval_digest = '';
