-- Before each reservation for another party, the cores that its jobs hold are summed. This index alone has them; the rows
-- of jobs, which have documents, are not read, however many of them wait.
CREATE INDEX ix_job_held ON t_job (f_resource_in_use, f_initiator_party_id, f_cores);
