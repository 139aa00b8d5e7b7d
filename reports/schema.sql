-- The results database, version 1 (later versions add files). One file holds any number of sessions (one call of a command);
-- a session has targets; a run is one target at one point of the load.
--
-- Times named *_ns are monotonic nanoseconds from the start of their run; *_wall_ns are nanoseconds
-- since 1970 UTC. NULL means "not measured"; a measured zero is 0.

CREATE TABLE session (
    session_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('run', 'eval', 'quantize', 'compare', 'bench')),
    scenario_name TEXT,
    scenario_text TEXT,             -- canonical text
    scenario_sha256 TEXT,           -- of scenario_text
    seed INTEGER,
    machine_usd_per_hour REAL,
    start_wall_ns INTEGER NOT NULL,
    end_wall_ns INTEGER,
    git_commit TEXT,
    build TEXT,                     -- compiler, flags, version
    host_json TEXT,                 -- machine facts as one JSON object
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'aborted'))
) STRICT;

CREATE TABLE fact (
    session_id INTEGER NOT NULL REFERENCES session,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE slo (
    session_id INTEGER NOT NULL REFERENCES session,
    metric TEXT NOT NULL CHECK (metric IN ('ttft', 'itl', 'tpot', 'e2e')),
    stat TEXT NOT NULL CHECK (stat IN ('each', 'mean', 'p50', 'p90', 'p95', 'p99')),
    limit_ns INTEGER NOT NULL,
    PRIMARY KEY (session_id, metric, stat)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
    checkpoint_id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    format TEXT,                    -- container: gguf, safetensors
    scheme TEXT,                    -- W4A16, Q4_1, bf16
    sha256 TEXT NOT NULL,           -- over the names and hashes of its files
    n_params INTEGER,
    disk_bytes INTEGER,
    weight_bytes INTEGER,           -- in memory, when loaded
    bits_per_weight REAL,
    kv_bytes_per_token INTEGER,
    source TEXT,                    -- where it came from, in words
    UNIQUE (path, sha256)
) STRICT;

CREATE TABLE target (
    target_id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES session,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('engine', 'http', 'null')),
    is_base INTEGER NOT NULL CHECK (is_base IN (0, 1)),
    checkpoint_id INTEGER REFERENCES checkpoint,
    detail TEXT,                    -- backend and options, or URL
    UNIQUE (session_id, name)
) STRICT;

CREATE TABLE run (
    run_id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES session,
    target_id INTEGER NOT NULL REFERENCES target,
    point_index INTEGER NOT NULL,
    point TEXT NOT NULL,            -- label: "2/s"
    point_value REAL,               -- rate per second, users, requests or speed
    arrival TEXT NOT NULL,
    start_wall_ns INTEGER NOT NULL,
    measured_from_ns INTEGER,       -- the measured phase, without warm-up and drain
    measured_to_ns INTEGER,
    end_ns INTEGER,
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'aborted')),
    verdict TEXT CHECK (verdict IN ('VALID', 'CLIENT-BOUND', 'SERVER-LIMITED', 'INCONCLUSIVE')),
    reason TEXT
) STRICT;

CREATE INDEX run_by_session ON run (session_id);

CREATE TABLE request (
    run_id INTEGER NOT NULL REFERENCES run,
    seq INTEGER NOT NULL,           -- order of intended starts; measured from 0, warm-up below
    phase TEXT NOT NULL CHECK (phase IN ('warmup', 'measured', 'drain')),
    intended_start_ns INTEGER NOT NULL,
    actual_start_ns INTEGER,        -- first byte written, or handed to the engine
    first_event_ns INTEGER,         -- first event of any kind
    first_token_ns INTEGER,         -- first event that bears a token
    first_answer_ns INTEGER,        -- first event of the answer proper (reasoning left out)
    last_token_ns INTEGER,
    end_ns INTEGER,                 -- stream closed
    n_prompt INTEGER,
    n_output INTEGER,
    n_output_first INTEGER,         -- tokens in the first token-bearing event
    n_output_is_estimated INTEGER CHECK (n_output_is_estimated IN (0, 1)),
    n_cached_prompt INTEGER,
    n_preempt INTEGER,
    finish_reason TEXT,
    error_class TEXT,               -- NULL: succeeded
    error_text TEXT,
    prompt_hash TEXT,
    seed INTEGER,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE token_event (
    run_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,           -- the request
    idx INTEGER NOT NULL,           -- order of events, from 0
    t_ns INTEGER NOT NULL,
    gap_ns INTEGER,                 -- since the event before; NULL for the first
    n_tokens INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE engine_sample (
    run_id INTEGER NOT NULL REFERENCES run,
    t_ns INTEGER NOT NULL,
    n_running INTEGER,
    n_waiting INTEGER,
    n_kv_blocks_used INTEGER,
    n_kv_blocks INTEGER,
    n_batch_tokens INTEGER,
    PRIMARY KEY (run_id, t_ns) ON CONFLICT REPLACE
) STRICT, WITHOUT ROWID;

CREATE TABLE eval_result (
    eval_id INTEGER PRIMARY KEY,
    target_id INTEGER NOT NULL REFERENCES target,
    task TEXT NOT NULL,             -- perplexity, or the name of a task
    definition TEXT,
    dataset TEXT,
    dataset_sha256 TEXT,
    window_tokens INTEGER,
    stride_tokens INTEGER,
    n_tokens INTEGER,
    value REAL,
    lo REAL,                        -- 95 % interval
    hi REAL,
    nll_sum REAL,
    extra_json TEXT
) STRICT;

CREATE INDEX eval_by_target ON eval_result (target_id);

CREATE TABLE kl_result (
    kl_id INTEGER PRIMARY KEY,
    target_id INTEGER NOT NULL REFERENCES target,
    base TEXT NOT NULL,
    dataset TEXT,
    dataset_sha256 TEXT,
    window_tokens INTEGER,
    n_tokens INTEGER,
    mean REAL,                      -- nats per token
    lo REAL,
    hi REAL,
    p50 REAL,
    p90 REAL,
    p99 REAL,
    max REAL,
    top1 REAL,                      -- share of tokens with the same most likely token
    top1_lo REAL,
    top1_hi REAL
) STRICT;

CREATE INDEX kl_by_target ON kl_result (target_id);

CREATE TABLE answer (
    target_id INTEGER NOT NULL REFERENCES target,
    prompt_index INTEGER NOT NULL,
    prompt TEXT NOT NULL,
    text TEXT,
    n_tokens INTEGER,
    finish_reason TEXT,
    PRIMARY KEY (target_id, prompt_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE quant_run (
    quant_run_id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES session,
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoint, -- what was written
    base_path TEXT,
    method TEXT,
    scheme TEXT,
    group_size INTEGER,
    recipe_text TEXT,
    dataset TEXT,
    n_samples INTEGER,
    n_tokens INTEGER,
    seconds REAL
) STRICT;

CREATE TABLE quant_module (
    quant_run_id INTEGER NOT NULL REFERENCES quant_run,
    idx INTEGER NOT NULL,
    name TEXT NOT NULL,
    method TEXT,
    group_size INTEGER,
    n_samples INTEGER,
    n_tokens INTEGER,
    damp REAL,
    n_dead_columns INTEGER,
    rel_error REAL,                 -- relative output error on the calibration set
    logged_error REAL,              -- sum of squared errors as GPTQ logs it
    seconds REAL,
    bytes_before INTEGER,
    bytes_after INTEGER,
    PRIMARY KEY (quant_run_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    note_id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL REFERENCES session,
    run_id INTEGER REFERENCES run,
    wall_ns INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
