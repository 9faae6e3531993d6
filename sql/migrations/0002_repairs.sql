-- Bindings of jobs, ways back, losses, limits of a job. Databases have had it: a further change of the schema is a migration
-- with a new number. A new column goes to the end of its model in fate_flow/store/models.py.

-- t_peer: the way to a party and its way back. Times are steady time; 0: nothing is wrong.
ALTER TABLE t_peer ADD COLUMN f_silent_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE t_peer ADD COLUMN f_silence VARCHAR(400) NOT NULL DEFAULT '';
ALTER TABLE t_peer ADD COLUMN f_cut_off_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE t_peer ADD COLUMN f_cut_off VARCHAR(400) NOT NULL DEFAULT '';
-- What a job id stands for at this party, whatever seats it has in the job. A job that was created before has no row
-- here: it is bound by its own rows.
CREATE TABLE t_job_binding (
  f_job_id VARCHAR(25) NOT NULL PRIMARY KEY,
  f_initiator_role VARCHAR(50) NOT NULL,
  f_initiator_party_id VARCHAR(50) NOT NULL,
  f_parties LONGTEXT NOT NULL,               -- [[role, party id]], sorted
  f_digest VARCHAR(64) NOT NULL,             -- SHA-256 of the document that is in force
  f_revision INTEGER NOT NULL                -- of that document
);
-- t_job: the document that an approval is of; empty: approved before this was written down.
ALTER TABLE t_job ADD COLUMN f_approval_digest VARCHAR(64) NOT NULL DEFAULT '';
-- t_job: what the job left goes so many seconds after its end; NULL: as retention has it. The index finds what is due.
ALTER TABLE t_job ADD COLUMN f_ttl INTEGER;
CREATE INDEX ix_job_ttl ON t_job (f_ttl, f_end_time, f_job_id);
-- t_task, at the initiator: the workers of this share that have failed in the job's present run, where the job bounds them.
ALTER TABLE t_task ADD COLUMN f_failed_workers INTEGER NOT NULL DEFAULT 0;
-- t_job: since which steady time it waits for a party that it lost (0: it does not), and how often it has waited so.
ALTER TABLE t_job ADD COLUMN f_lost_since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE t_job ADD COLUMN f_losses INTEGER NOT NULL DEFAULT 0;
