-- Parties that have joined this one by an invitation, in either direction. Their keys are in t_party_key.

CREATE TABLE t_joined_party (
  f_party_id VARCHAR(10) NOT NULL PRIMARY KEY,
  f_address VARCHAR(300) NOT NULL,           -- https URL of its gateway: its route, unless the configuration has one
  f_phrase VARCHAR(100) NOT NULL,            -- the six words that both operators compare
  f_joined_at BIGINT NOT NULL,
  f_joined_by VARCHAR(100) NOT NULL,         -- who invited it, or joined it
  f_clock_offset BIGINT NOT NULL             -- milliseconds by which its clock was ahead of ours then
);
