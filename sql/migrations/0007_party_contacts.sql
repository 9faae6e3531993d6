-- When another party was last heard and reached over TLS, as seen on the connection; written at most once a minute.

CREATE TABLE t_party_contact (
  f_party_id VARCHAR(10) NOT NULL,
  f_direction VARCHAR(10) NOT NULL,
  f_time BIGINT NOT NULL,
  f_tls VARCHAR(20) NOT NULL,                -- version of TLS
  f_key_id VARCHAR(64) NOT NULL,             -- of the tls key of the party
  PRIMARY KEY (f_party_id, f_direction),
  CONSTRAINT ck_party_contact_direction CHECK (f_direction IN ('from', 'to'))
);
