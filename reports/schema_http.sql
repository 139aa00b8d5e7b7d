-- Version 2: what is known of a request's way through the network. One row a request of an http
-- target, beside its row in request. Times and NULL as in schema.sql.

CREATE TABLE request_http (
    run_id INTEGER NOT NULL REFERENCES run,
    seq INTEGER NOT NULL,           -- the request
    endpoint INTEGER NOT NULL,      -- which URL of the target, from 0
    status INTEGER,                 -- of HTTP; NULL: no answer came
    is_reused INTEGER NOT NULL CHECK (is_reused IN (0, 1)), -- the connection was there
    n_retries INTEGER NOT NULL,     -- kept connections that were dead
    handed_ns INTEGER,              -- the client began with it
    dns_ns INTEGER,                 -- durations of a new connection
    connect_ns INTEGER,
    tls_ns INTEGER,
    first_write_ns INTEGER,         -- the request began to be written
    first_read_ns INTEGER,          -- the first byte of the answer
    n_bytes INTEGER,                -- of the body
    n_events INTEGER,               -- of the stream
    n_reasoning INTEGER,            -- tokens, as the server says
    retry_after_ns INTEGER,         -- as the server asks
    token_count TEXT CHECK (token_count IN ('event', 'spread', 'tokenizer', 'logprobs', 'token_ids',
        'usage')),                  -- how the tokens of an event were counted
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;
