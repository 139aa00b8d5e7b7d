-- Version 2: the token events of a finished run once more, one row a request, to be read fast.
-- token_event stays the truth; a run may have no rows here.

CREATE TABLE token_pack (
    run_id INTEGER NOT NULL REFERENCES run,
    seq INTEGER NOT NULL,
    n_events INTEGER NOT NULL,
    data BLOB NOT NULL,             -- reports/pack.c
    PRIMARY KEY (run_id, seq)
) STRICT;
