/* Entries and ways through the network as rows: -1, "not seen", becomes NULL. */
#include "harness/replay_int.h"

static int64_t or_null(int64_t v) {
    return v < 0 ? STORE_NULL : v;
}

int replay_write(struct store *s, int64_t run_id, const struct replay_entry *e) {
    bool ended_well = e->end_ns >= 0 && !e->error_class;
    struct store_request q = {.run_id = run_id,
                              .seq = e->seq,
                              .phase = e->warmup ? "warmup" : "measured",
                              .intended_start_ns = e->intended_ns,
                              .actual_start_ns = e->actual_ns < 0 ? STORE_NULL : e->actual_ns,
                              .first_event_ns = or_null(e->event_ns),
                              .first_token_ns = or_null(e->first_ns),
                              .first_answer_ns = or_null(e->answer_ns),
                              .last_token_ns = or_null(e->last_ns),
                              .end_ns = or_null(e->end_ns),
                              .n_prompt = or_null(e->n_prompt),
                              .n_output = or_null(e->n_output),
                              .n_output_first = or_null(e->n_output_first),
                              .n_output_is_estimated = e->is_estimated,
                              .n_cached_prompt = or_null(e->n_cached),
                              .n_preempt = or_null(e->n_preempt),
                              .finish_reason = ended_well && e->finish[0] ? e->finish : NULL,
                              .error_class = e->error_class,
                              .error_text = e->error_text[0] ? e->error_text : NULL,
                              .prompt_hash = e->hash[0] ? e->hash : NULL,
                              .seed = (int64_t)e->seed};
    return store_request(s, &q);
}

static int64_t since(int64_t t_ns, int64_t start_ns) {
    return t_ns < 0 ? STORE_NULL : t_ns - start_ns;
}

int replay_write_wire(
    struct store *s, int64_t run_id, int64_t seq, int64_t start_ns, const struct target_wire *w) {
    struct store_http q = {.run_id = run_id,
                           .seq = seq,
                           .endpoint = w->endpoint,
                           .status = w->status > 0 ? w->status : STORE_NULL,
                           .is_reused = w->is_reused,
                           .n_retries = w->n_retries,
                           .handed_ns = since(w->handed_ns, start_ns),
                           .dns_ns = or_null(w->dns_ns),
                           .connect_ns = or_null(w->connect_ns),
                           .tls_ns = or_null(w->tls_ns),
                           .first_write_ns = since(w->first_write_ns, start_ns),
                           .first_read_ns = since(w->first_read_ns, start_ns),
                           .n_bytes = w->n_bytes,
                           .n_events = w->n_events,
                           .n_reasoning = or_null(w->n_reasoning),
                           .retry_after_ns = or_null(w->retry_after_ns),
                           .token_count = w->token_count};
    return store_http(s, &q);
}
