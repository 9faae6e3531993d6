-- What this party keeps of other parties.

CREATE TABLE t_party_key (                   -- the newest key list of another party, and how this party regards it
  f_party_id VARCHAR(10) NOT NULL PRIMARY KEY,
  f_number BIGINT NOT NULL,                  -- of the list
  f_root_id VARCHAR(64) NOT NULL,            -- SHA-256 of the DER form of the root key
  f_root_key LONGTEXT NOT NULL,              -- PEM
  f_content LONGTEXT NOT NULL,               -- what the root key has signed, to the letter
  f_signature VARCHAR(100) NOT NULL,         -- base64
  f_received_at BIGINT NOT NULL,
  f_state VARCHAR(20) NOT NULL,
  f_state_by VARCHAR(100) NOT NULL,          -- who put it into this state, and when
  f_state_at BIGINT NOT NULL,
  CONSTRAINT ck_party_key_state CHECK (f_state IN ('joined', 'revoked', 'removed'))
);
CREATE TABLE t_old_party_key (               -- key lists that newer ones have replaced
  f_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  f_party_id VARCHAR(10) NOT NULL,
  f_root_key LONGTEXT NOT NULL,
  f_content LONGTEXT NOT NULL,
  f_signature VARCHAR(100) NOT NULL,
  f_received_at BIGINT NOT NULL,
  f_replaced_at BIGINT NOT NULL
);
CREATE INDEX ix_old_party_key_party ON t_old_party_key (f_party_id, f_id);
