-- Every number of a report is read from a view of this file; seconds are named *_s.
-- Latency starts at the intended start (ttft_s, e2e_s); the service time from the actual start is
-- kept beside it. Values that need something unmeasured are NULL.

CREATE VIEW v_session AS
SELECT session_id, kind, scenario_name, scenario_text, scenario_sha256, seed, machine_usd_per_hour,
    start_wall_ns, end_wall_ns, git_commit, build, host_json, status
FROM session;

CREATE VIEW v_fact AS SELECT session_id, name, value FROM fact;

CREATE VIEW v_slo AS
SELECT session_id, metric, stat, limit_ns * 1e-9 AS limit_s FROM slo;

CREATE VIEW v_target AS
SELECT t.session_id, t.target_id, t.name, t.kind, t.is_base, t.detail, c.checkpoint_id, c.path,
    c.format, c.scheme, c.sha256, c.n_params, c.disk_bytes, c.weight_bytes, c.bits_per_weight,
    c.kv_bytes_per_token, c.source
FROM target t LEFT JOIN checkpoint c USING (checkpoint_id);

CREATE VIEW v_run AS
SELECT r.run_id, r.session_id, r.target_id, t.name AS target, t.kind AS target_kind, t.is_base,
    r.point_index, r.point, r.point_value, r.arrival, r.start_wall_ns, r.status, r.verdict,
    r.reason, r.measured_from_ns * 1e-9 AS measured_from_s, r.measured_to_ns * 1e-9 AS measured_to_s,
    r.end_ns * 1e-9 AS end_s
FROM run r JOIN target t USING (target_id);

-- One row a request; ok = 1 when it ended without an error.
CREATE VIEW v_request AS
SELECT run_id, seq, phase, error_class IS NULL AND end_ns IS NOT NULL AS ok,
    CASE WHEN error_class IS NULL AND end_ns IS NULL THEN 'unfinished' ELSE error_class END
        AS error_class,
    finish_reason, n_prompt, n_output, n_cached_prompt, n_preempt,
    intended_start_ns * 1e-9 AS start_s,
    coalesce(end_ns, last_token_ns) * 1e-9 AS end_s,
    -- what the client alone is late by; the way to the first byte may hold a new connection
    (coalesce((SELECT h.handed_ns FROM request_http h
               WHERE h.run_id = request.run_id AND h.seq = request.seq), actual_start_ns)
        - intended_start_ns) * 1e-9 AS send_lag_s,
    (first_token_ns - intended_start_ns) * 1e-9 AS ttft_s,
    (first_token_ns - actual_start_ns) * 1e-9 AS ttft_service_s,
    (first_answer_ns - intended_start_ns) * 1e-9 AS ttft_answer_s,
    (first_event_ns - intended_start_ns) * 1e-9 AS ttft_event_s,
    CASE WHEN n_output > n_output_first
        THEN (last_token_ns - first_token_ns) * 1e-9 / (n_output - n_output_first) END AS tpot_s,
    (last_token_ns - intended_start_ns) * 1e-9 AS e2e_s,
    (last_token_ns - actual_start_ns) * 1e-9 AS e2e_service_s,
    (end_ns - intended_start_ns) * 1e-9 AS close_s
FROM request;

CREATE VIEW v_ttft AS
SELECT run_id, seq, ttft_s AS value_s FROM v_request
WHERE phase = 'measured' AND ok AND ttft_s IS NOT NULL;

CREATE VIEW v_ttft_service AS
SELECT run_id, seq, ttft_service_s AS value_s FROM v_request
WHERE phase = 'measured' AND ok AND ttft_service_s IS NOT NULL;

CREATE VIEW v_tpot AS
SELECT run_id, seq, tpot_s AS value_s FROM v_request
WHERE phase = 'measured' AND ok AND tpot_s IS NOT NULL;

CREATE VIEW v_e2e AS
SELECT run_id, seq, e2e_s AS value_s FROM v_request
WHERE phase = 'measured' AND ok AND e2e_s IS NOT NULL;

CREATE VIEW v_send_lag AS
SELECT run_id, seq, send_lag_s AS value_s FROM v_request
WHERE phase = 'measured' AND send_lag_s IS NOT NULL;

-- One row an event after the first: the gap shared among its tokens, which count as that many.
-- CROSS JOIN keeps requests in the outer loop: one search a request, not one an event.
CREATE VIEW v_itl AS
SELECT r.run_id, r.seq, e.idx, e.gap_ns * 1e-9 / e.n_tokens AS value_s, e.n_tokens
FROM request r CROSS JOIN token_event e ON e.run_id = r.run_id AND e.seq = r.seq
WHERE r.phase = 'measured' AND r.error_class IS NULL AND r.end_ns IS NOT NULL
    AND e.gap_ns IS NOT NULL AND e.n_tokens > 0;

-- The way of each request through the network.
CREATE VIEW v_http AS
SELECT h.run_id, h.seq, q.phase, h.endpoint, h.status, h.is_reused, h.n_retries,
    (h.handed_ns - q.intended_start_ns) * 1e-9 AS send_lag_s, h.dns_ns * 1e-9 AS dns_s,
    h.connect_ns * 1e-9 AS connect_s, h.tls_ns * 1e-9 AS tls_s,
    (h.first_write_ns - h.handed_ns) * 1e-9 AS first_write_s,
    (h.first_read_ns - h.first_write_ns) * 1e-9 AS first_read_s, h.n_bytes, h.n_events,
    h.n_reasoning, h.retry_after_ns * 1e-9 AS retry_after_s, h.token_count
FROM request_http h JOIN request q USING (run_id, seq);

-- Measured requests: offered, succeeded, failed; a request never finished has failed.
CREATE VIEW v_run_counts AS
SELECT run_id, sum(phase = 'measured') AS n_offered, sum(phase = 'measured' AND ok) AS n_ok,
    sum(phase = 'measured' AND NOT ok) AS n_failed, sum(phase = 'warmup') AS n_warmup,
    sum(phase = 'drain') AS n_drain, sum(CASE WHEN phase = 'measured' THEN n_prompt END) AS n_prompt,
    sum(CASE WHEN phase = 'measured' THEN n_output END) AS n_output,
    sum(CASE WHEN phase = 'measured' THEN n_cached_prompt END) AS n_cached_prompt,
    sum(CASE WHEN phase = 'measured' THEN n_preempt END) AS n_preempt,
    sum(phase = 'measured' AND ok AND n_output > 0 AND ttft_s IS NOT NULL) AS n_streamed
FROM v_request GROUP BY run_id;

CREATE VIEW v_run_failures AS
SELECT run_id, error_class, count(*) AS n FROM v_request
WHERE phase = 'measured' AND NOT ok GROUP BY run_id, error_class;

-- What goodput is decided on, one row a measured request.
CREATE VIEW v_goodput_input AS
SELECT run_id, seq, ok, start_s, end_s, ttft_s, tpot_s, e2e_s FROM v_request
WHERE phase = 'measured';

-- Tokens of all requests, finished or not, in bins of 250 ms.
CREATE VIEW v_tokens_per_bin AS
SELECT run_id, t_ns / 250000000 AS bin, sum(n_tokens) AS n_tokens FROM token_event
GROUP BY run_id, bin;

-- Output tokens over the whole measured phase (the report narrows it to the steady window).
CREATE VIEW v_output_rate AS
SELECT r.run_id, sum(e.n_tokens) * 1e9 / (r.measured_to_ns - r.measured_from_ns)
    AS output_tokens_per_s
FROM run r JOIN token_event e ON e.run_id = r.run_id
    AND e.t_ns >= r.measured_from_ns AND e.t_ns < r.measured_to_ns
WHERE r.measured_to_ns > r.measured_from_ns GROUP BY r.run_id;

-- Time in the house of each measured request; to_s is NULL while it is unfinished.
CREATE VIEW v_in_flight AS
SELECT run_id, seq, start_s AS from_s, end_s AS to_s FROM v_request WHERE phase = 'measured';

CREATE VIEW v_sample AS
SELECT run_id, t_ns * 1e-9 AS t_s, n_running, n_waiting, n_kv_blocks_used, n_kv_blocks,
    n_batch_tokens
FROM engine_sample;

CREATE VIEW v_eval AS
SELECT e.target_id, e.eval_id, e.task, e.definition, e.dataset, e.dataset_sha256, e.window_tokens,
    e.stride_tokens, e.n_tokens, e.value, e.lo, e.hi, e.nll_sum, e.extra_json
FROM eval_result e;

CREATE VIEW v_kl AS
SELECT target_id, kl_id, base, dataset, dataset_sha256, window_tokens, n_tokens, mean, lo, hi, p50,
    p90, p99, max, top1, top1_lo, top1_hi
FROM kl_result;

CREATE VIEW v_answer AS
SELECT t.session_id, t.target_id, t.name AS target, a.prompt_index, a.prompt, a.text, a.n_tokens,
    a.finish_reason
FROM answer a JOIN target t USING (target_id);

-- The newest quantization that wrote a target's checkpoint.
CREATE VIEW v_quant_run AS
SELECT q.quant_run_id, q.checkpoint_id, q.base_path, q.method, q.scheme, q.group_size,
    q.recipe_text, q.dataset, q.n_samples, q.n_tokens, q.seconds
FROM quant_run q
WHERE q.quant_run_id = (SELECT max(o.quant_run_id) FROM quant_run o
                        WHERE o.checkpoint_id = q.checkpoint_id);

CREATE VIEW v_quant_module AS
SELECT quant_run_id, idx, name, method, group_size, n_samples, n_tokens, damp, n_dead_columns,
    rel_error, logged_error, seconds, bytes_before, bytes_after
FROM quant_module;

CREATE VIEW v_note AS SELECT session_id, run_id, wall_ns, text FROM note;

-- How other tools count the same events. s = actual start, t1 and tL = first and last counted event,
-- e = end of the stream, n = output tokens. One row a successful measured request.
CREATE VIEW v_peer_request AS
SELECT run_id, seq, actual_start_ns, first_event_ns, first_token_ns, first_answer_ns, last_token_ns,
    end_ns, n_output, n_output_first
FROM request WHERE phase = 'measured' AND error_class IS NULL AND end_ns IS NOT NULL;

-- vllm bench serve: first event of any kind is the first token; tpot = (tL - t1) / (n - 1).
CREATE VIEW v_vllm AS
SELECT run_id, seq, (first_event_ns - actual_start_ns) * 1e-9 AS ttft_s,
    CASE WHEN n_output > 1 THEN (last_token_ns - first_event_ns) * 1e-9 / (n_output - 1) END
        AS tpot_s,
    (last_token_ns - actual_start_ns) * 1e-9 AS e2e_s
FROM v_peer_request;

-- vllm bench serve, sglang, inference-perf: gaps between events; an event of several tokens counts
-- once.
CREATE VIEW v_vllm_itl AS
SELECT r.run_id, r.seq, e.idx, e.gap_ns * 1e-9 AS itl_s
FROM request r CROSS JOIN token_event e ON e.run_id = r.run_id AND e.seq = r.seq
WHERE r.phase = 'measured' AND r.error_class IS NULL AND r.end_ns IS NOT NULL
    AND e.gap_ns IS NOT NULL;

-- GuideLLM: tpot = (tL - s) / n holds the time to first token; itl = one mean a request, weight n-1.
CREATE VIEW v_guidellm AS
SELECT run_id, seq, (first_token_ns - actual_start_ns) * 1e-9 AS ttft_s,
    CASE WHEN n_output > 0 THEN (last_token_ns - actual_start_ns) * 1e-9 / n_output END AS tpot_s,
    CASE WHEN n_output > 1 THEN (last_token_ns - first_token_ns) * 1e-9 / (n_output - 1) END
        AS itl_s,
    CASE WHEN n_output > 1 THEN n_output - 1 END AS itl_weight,
    (end_ns - actual_start_ns) * 1e-9 AS e2e_s
FROM v_peer_request;

-- GuideLLM: tokens of a request inside the measured phase, taken as evenly spread from t1 to tL.
CREATE VIEW v_guidellm_tokens AS
SELECT q.run_id, q.seq, (q.first_token_ns >= r.measured_from_ns
        AND q.first_token_ns < r.measured_to_ns)
    + CASE WHEN q.last_token_ns > q.first_token_ns THEN (q.n_output - 1) * 1.0
        * max(0, min(q.last_token_ns, r.measured_to_ns) - max(q.first_token_ns, r.measured_from_ns))
        / (q.last_token_ns - q.first_token_ns) ELSE 0 END AS n_tokens
FROM request q JOIN run r USING (run_id)
WHERE q.first_token_ns IS NOT NULL AND q.n_output > 0 AND q.error_class IS NULL;

-- AIPerf: itl = (tL - t1) / (n - 1), one mean a request, and tpot the same.
CREATE VIEW v_aiperf AS
SELECT run_id, seq, (first_token_ns - actual_start_ns) * 1e-9 AS ttft_s,
    CASE WHEN n_output > 1 THEN (last_token_ns - first_token_ns) * 1e-9 / (n_output - 1) END
        AS itl_s,
    (last_token_ns - actual_start_ns) * 1e-9 AS e2e_s
FROM v_peer_request;

-- sglang bench_serving: latency is stamped at the last line of the stream.
CREATE VIEW v_sglang AS
SELECT run_id, seq, (first_token_ns - actual_start_ns) * 1e-9 AS ttft_s,
    CASE WHEN n_output > 1 THEN (end_ns - first_token_ns) * 1e-9 / (n_output - 1) END AS tpot_s,
    (end_ns - actual_start_ns) * 1e-9 AS e2e_s
FROM v_peer_request;

-- inference-perf: reasoning is no token; a stream of one event has no ttft; e2e ends with the call.
CREATE VIEW v_inference_perf AS
SELECT run_id, seq, CASE WHEN n_output > n_output_first
        THEN (first_answer_ns - actual_start_ns) * 1e-9 END AS ttft_s,
    CASE WHEN n_output > 1 THEN (last_token_ns - first_answer_ns) * 1e-9 / (n_output - 1) END
        AS tpot_s,
    (end_ns - actual_start_ns) * 1e-9 AS e2e_s
FROM v_peer_request;

-- What rates are made of, one row a measured request; ok_* are NULL unless it succeeded.
CREATE VIEW v_peer_span AS
SELECT run_id, seq, actual_start_ns AS start_ns, coalesce(end_ns, last_token_ns) AS stop_ns,
    CASE WHEN error_class IS NULL AND end_ns IS NOT NULL THEN n_output END AS ok_n_output,
    CASE WHEN error_class IS NULL AND end_ns IS NOT NULL THEN actual_start_ns END AS ok_start_ns,
    CASE WHEN error_class IS NULL AND end_ns IS NOT NULL THEN last_token_ns END AS ok_last_token_ns,
    CASE WHEN error_class IS NULL AND end_ns IS NOT NULL THEN end_ns END AS ok_end_ns
FROM request WHERE phase = 'measured';

-- Means of one run by each convention, beside ours, from its requests alone. Where itl_from is set,
-- the itl is v_peer_gaps' column of that name; our rate is v_output_rate's.
CREATE VIEW v_peer_means AS
SELECT run_id, 'Trilemma' AS definition, avg(ttft_s) AS ttft_s, avg(tpot_s) AS tpot_s,
    NULL AS itl_s, 'token_s' AS itl_from, avg(e2e_s) AS e2e_s, NULL AS output_tokens_per_s
FROM v_request WHERE phase = 'measured' AND ok GROUP BY run_id
UNION ALL SELECT run_id, 'vllm bench serve', avg(ttft_s), avg(tpot_s), NULL, 'event_s', avg(e2e_s),
    (SELECT sum(w.ok_n_output) * 1e9 / (max(w.stop_ns) - min(w.start_ns))
     FROM v_peer_span w WHERE w.run_id = v_vllm.run_id)
FROM v_vllm GROUP BY run_id
UNION ALL SELECT run_id, 'GuideLLM', avg(ttft_s), avg(tpot_s),
    sum(itl_s * itl_weight) / sum(CASE WHEN itl_s IS NOT NULL THEN itl_weight END), NULL, avg(e2e_s),
    (SELECT sum(t.n_tokens) * 1e9 / (r.measured_to_ns - r.measured_from_ns)
     FROM v_guidellm_tokens t JOIN run r USING (run_id) WHERE t.run_id = v_guidellm.run_id)
FROM v_guidellm GROUP BY run_id
UNION ALL SELECT run_id, 'AIPerf', avg(ttft_s), avg(itl_s), avg(itl_s), NULL, avg(e2e_s),
    (SELECT sum(w.ok_n_output) * 1e9 / (max(w.ok_last_token_ns) - min(w.ok_start_ns))
     FROM v_peer_span w WHERE w.run_id = v_aiperf.run_id)
FROM v_aiperf GROUP BY run_id
UNION ALL SELECT run_id, 'sglang bench_serving', avg(ttft_s), avg(tpot_s), NULL, 'event_s',
    avg(e2e_s),
    (SELECT sum(w.ok_n_output) * 1e9 / (max(w.stop_ns) - min(w.start_ns))
     FROM v_peer_span w WHERE w.run_id = v_sglang.run_id)
FROM v_sglang GROUP BY run_id
UNION ALL SELECT run_id, 'inference-perf', avg(ttft_s), avg(tpot_s), NULL, 'event_s', avg(e2e_s),
    (SELECT sum(w.ok_n_output) * 1e9 / (max(w.ok_end_ns) - min(w.ok_start_ns))
     FROM v_peer_span w WHERE w.run_id = v_inference_perf.run_id)
FROM v_inference_perf GROUP BY run_id;

-- Mean gap over tokens (ours) and over events (the others').
CREATE VIEW v_peer_gaps AS
SELECT r.run_id, sum(CASE WHEN e.n_tokens > 0 THEN e.gap_ns END) * 1e-9
    / sum(CASE WHEN e.n_tokens > 0 THEN e.n_tokens END) AS token_s, avg(e.gap_ns) * 1e-9 AS event_s
FROM request r CROSS JOIN token_event e ON e.run_id = r.run_id AND e.seq = r.seq
WHERE r.phase = 'measured' AND r.error_class IS NULL AND r.end_ns IS NOT NULL
    AND e.gap_ns IS NOT NULL
GROUP BY r.run_id;

CREATE VIEW v_peers AS
SELECT m.run_id, m.definition, m.ttft_s, m.tpot_s,
    CASE m.itl_from WHEN 'token_s' THEN g.token_s WHEN 'event_s' THEN g.event_s ELSE m.itl_s END
        AS itl_s,
    m.e2e_s, CASE WHEN m.definition = 'Trilemma'
        THEN (SELECT o.output_tokens_per_s FROM v_output_rate o WHERE o.run_id = m.run_id)
        ELSE m.output_tokens_per_s END AS output_tokens_per_s
FROM v_peer_means m LEFT JOIN v_peer_gaps g ON g.run_id = m.run_id;

-- The raw events, and their packed copy (reports/pack.c) that the program itself reads.
CREATE VIEW v_token_event AS SELECT run_id, seq, idx, t_ns, gap_ns, n_tokens FROM token_event;

CREATE VIEW v_token_pack AS SELECT run_id, seq, n_events, data FROM token_pack;

-- Packed requests with another number of events than rows; empty in a sound database.
CREATE VIEW v_pack_error AS
SELECT p.run_id, p.seq, p.n_events, (SELECT count(*) FROM token_event e
                                     WHERE e.run_id = p.run_id AND e.seq = p.seq) AS n_rows
FROM token_pack p
WHERE p.n_events IS NOT (SELECT count(*) FROM token_event e
                         WHERE e.run_id = p.run_id AND e.seq = p.seq);

-- Events whose stored gap is not the difference of their times; empty in a sound database.
CREATE VIEW v_gap_error AS
SELECT run_id, seq, idx, gap_ns, want_ns
FROM (SELECT run_id, seq, idx, gap_ns,
        t_ns - lag(t_ns) OVER (PARTITION BY run_id, seq ORDER BY idx) AS want_ns
      FROM token_event)
WHERE gap_ns IS NOT want_ns;
