/* Threads and what they own:
 *
 *   sender   waits for each intended time (less the target's lead), makes the request,
 *            target_submit, publishes its entry
 *   target   its own threads answer
 *   caller   target_poll -> store; progress; ends the run
 *
 * Laws:
 *  1. An entry is the sender's until n_entry counts it, and the caller's from then on. An event may
 *     come before: the caller waits for the entry, which is certain to come, since the event's
 *     request has been accepted. An entry's index is its request's tag.
 *  2. The lock guards the arrival process, the users that are free again, and stop_sending. It is
 *     never held while anything is made, submitted or stored, so that a slow disk delays no
 *     request.
 *  3. Times are monotonic and stored relative to the start of the run.
 *  4. A target that cannot be reached is a note in the database, and, when the scenario says so,
 *     the end of the run. A user of a closed loop waits RETRY_NS before it asks such a target
 *     again. */
#include "harness/replay.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "harness/replay_int.h"

static const int64_t POLL_NS = 2000000;     /* the caller looks for events so often */
static const int64_t SAMPLE_NS = 100000000; /* samples of the target */
static const int64_t PROGRESS_NS = 200000000;
static const int64_t LEAD_NS = 50000000;             /* thread start to the first intended time */
static const int64_t AWAY_NS = 1000000000;           /* no answer for so long: the target is away */
static const int64_t RETRY_NS = 100000000;           /* pause of a user whose target is away */
static const int64_t DRAIN_DEFAULT_NS = 30000000000; /* of a scenario that names none */

struct replay {
    const struct replay_opts *o;
    struct replay_entry *entry; /* own, [cap] in order of sending */
    int32_t cap;
    _Atomic int32_t n_entry;

    pthread_mutex_t lock;
    pthread_cond_t wake;    /* a user is free again, or stop_sending */
    struct arrival arrival; /* under the lock, like the next four */
    int64_t *ready;         /* own, ring [n_user]: starts of users that are free again */
    int32_t n_user;         /* closed loop; else 0 */
    int32_t ready_at;
    int32_t n_ready;

    int64_t start_ns; /* monotonic time of offset 0 */
    int64_t stop_ns;  /* offset at which the load ends; INT64_MAX: when all is sent */
    _Atomic bool stop_sending;
    _Atomic bool sending;
    _Atomic bool reached_stop; /* all that was due before stop_ns has been sent */
    _Atomic int sender_rc;
    char sender_error[256]; /* written by the sender before sender_rc */

    int32_t n_begun;  /* entries whose first row is written */
    int32_t n_done;   /* entries that are over */
    int32_t all_done; /* entries below this are over */
    int64_t sampled_ns;

    int64_t away_from_ns; /* the first of the requests in a row without any answer; -1: none */
    int32_t n_away;       /* of them */
    bool is_away;         /* long enough to say so */
    int64_t away_ns;      /* all times together */
};

static int64_t now_of(const struct replay *r) {
    return clock_now_ns() - r->start_ns;
}

/* Sleeps until an offset. out: false when sending is to stop */
static bool wait_until(struct replay *r, int64_t offset_ns) {
    int64_t at = r->start_ns + offset_ns;
    struct timespec ts = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    pthread_mutex_lock(&r->lock);
    while (!atomic_load(&r->stop_sending) && clock_now_ns() < at) {
        pthread_cond_timedwait(&r->wake, &r->lock, &ts);
    }
    pthread_mutex_unlock(&r->lock);
    return !atomic_load(&r->stop_sending);
}

/* Hands a request over and publishes its entry. rc: what load_make said */
static void
hand_over(struct replay *r, int rc, const struct load_request *q, struct replay_entry *e) {
    const struct scenario *sc = r->o->sc;
    int32_t i = atomic_load(&r->n_entry);
    int64_t sent_ns = clock_now_ns();
    const struct target_request tq = {.tag = (uint64_t)i,
                                      .number = e->seq,
                                      .intended_ns = r->start_ns + e->intended_ns,
                                      .ids = q->ids,
                                      .n_ids = q->n_ids,
                                      .max_new = q->max_new,
                                      .temperature = sc->temperature,
                                      .top_p = sc->top_p,
                                      .seed = q->seed};
    rc = rc ? rc : target_submit(r->o->target, &tq, &sent_ns);
    e->is_accepted = rc == 0;
    e->actual_ns = sent_ns < 0 ? -1 : sent_ns - r->start_ns;
    e->n_prompt = q->n_ids;
    e->seed = q->seed;
    memcpy(e->hash, q->hash, sizeof e->hash);
    if (rc) {
        e->end_ns = now_of(r);
        e->error_class = rc == ERR_BUSY ? "refused_busy" : "refused";
        str_copy(e->error_text, (int64_t)sizeof e->error_text, err_msg());
    }
    r->entry[i] = *e;
    atomic_store(&r->n_entry, i + 1);
}

/* Waits until the target wants request number n of its phase. out: false when sending is to stop */
static bool send_one(struct replay *r, int64_t n, bool warmup, int64_t intended_ns) {
    struct load_request q;
    struct replay_entry e = {.seq = warmup ? -1 - n : n,
                             .intended_ns = intended_ns,
                             .actual_ns = -1,
                             .event_ns = -1,
                             .first_ns = -1,
                             .answer_ns = -1,
                             .last_ns = -1,
                             .end_ns = -1,
                             .n_output_first = -1,
                             .n_cached = -1,
                             .n_preempt = -1,
                             .warmup = warmup};
    int rc = load_make(r->o->load, n, warmup, &q);
    bool go = wait_until(r, intended_ns - r->o->target->lead_ns);
    if (go) {
        hand_over(r, rc, &q, &e);
    }
    load_request_fini(&q);
    return go;
}

/* A start that is known now. in: lock held */
static bool known_start(struct replay *r, int64_t *start_ns) {
    if (r->n_ready > 0) {
        *start_ns = r->ready[r->ready_at];
        r->ready_at = (r->ready_at + 1) % r->n_user;
        r->n_ready--;
        return true;
    }
    return arrival_next(&r->arrival, start_ns);
}

/* The next intended start; waits for a free user in a closed loop. out: false when there is none */
static bool next_start(struct replay *r, int64_t *start_ns) {
    pthread_mutex_lock(&r->lock);
    bool found = known_start(r, start_ns);
    while (!found && r->n_user > 0 && !atomic_load(&r->stop_sending)) {
        pthread_cond_wait(&r->wake, &r->lock);
        found = known_start(r, start_ns);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void *sender_thread(void *arg) {
    struct replay *r = arg;
    const struct scenario *sc = r->o->sc;
    int64_t n_warmup = 0;
    int64_t n_measured = 0;
    int64_t start = 0;
    while (next_start(r, &start)) {
        if (start >= r->stop_ns) {
            atomic_store(&r->reached_stop, true);
            break;
        }
        bool warmup = start < sc->warmup_ns;
        if (!warmup && sc->n_requests > 0 && n_measured == sc->n_requests) {
            break;
        }
        if (n_warmup + n_measured == r->cap) {
            int rc = err_set(ERR_LIMIT, "more than %d requests in one run", (int)r->cap);
            str_copy(r->sender_error, (int64_t)sizeof r->sender_error, err_msg());
            atomic_store(&r->sender_rc, rc);
            break;
        }
        if (!send_one(r, warmup ? n_warmup : n_measured, warmup, start)) {
            break;
        }
        n_warmup += warmup ? 1 : 0;
        n_measured += warmup ? 0 : 1;
    }
    atomic_store(&r->sending, false);
    return NULL;
}

static void end_sending(struct replay *r) {
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->stop_sending, true);
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

/* Counts an entry as over, and gives its user back to the sender. */
static void request_over(struct replay *r, const struct replay_entry *e) {
    int64_t start = 0;
    int64_t free_ns = e->end_ns + (r->n_away > 0 ? RETRY_NS : 0);
    r->n_done++;
    pthread_mutex_lock(&r->lock);
    if (r->n_user > 0 && arrival_done(&r->arrival, free_ns, &start) && r->n_ready < r->n_user) {
        r->ready[(r->ready_at + r->n_ready) % r->n_user] = start;
        r->n_ready++;
        pthread_cond_broadcast(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
}

/* The first row of every new entry; a refused one is over with it. */
static int begin_new(struct replay *r) {
    int rc = 0;
    int32_t n = atomic_load(&r->n_entry);
    for (; r->n_begun < n && !rc; r->n_begun++) {
        const struct replay_entry *e = &r->entry[r->n_begun];
        rc = replay_write(r->o->store, r->o->run_id, e);
        if (!e->is_accepted) {
            request_over(r, e);
        }
    }
    return rc;
}

static int64_t first_of(int64_t seen, int64_t t) {
    return seen < 0 ? t : seen;
}

static int on_tokens(struct replay *r, struct replay_entry *e, const struct target_event *ev) {
    int64_t t = ev->t_ns - r->start_ns;
    struct store_token row = {.run_id = r->o->run_id,
                              .seq = e->seq,
                              .idx = e->n_event,
                              .t_ns = t,
                              .gap_ns = e->n_event == 0 ? STORE_NULL : t - e->last_ns,
                              .n_tokens = ev->n_tokens};
    e->event_ns = first_of(e->event_ns, t);
    if (!ev->is_whole) {
        e->first_ns = first_of(e->first_ns, t);
        e->answer_ns = ev->is_answer ? first_of(e->answer_ns, t) : e->answer_ns;
        e->n_output_first = first_of(e->n_output_first, ev->n_tokens);
    }
    e->last_ns = t;
    if (ev->is_whole && ev->n_tokens == 0) {
        e->n_output = -1; /* nobody counted */
        return 0;
    }
    e->n_event++;
    e->n_output += ev->n_tokens;
    return store_token(r->o->store, &row);
}

static void take_outcome(struct replay_entry *e, const struct target_outcome *o) {
    e->n_prompt = o->n_prompt < 0 ? e->n_prompt : o->n_prompt;
    e->n_output = o->n_output < 0 ? e->n_output : o->n_output;
    e->n_cached = o->n_cached;
    e->n_preempt = o->n_preempt;
    e->is_estimated = o->is_estimated;
    str_copy(e->finish, (int64_t)sizeof e->finish, o->finish ? o->finish : "");
    if (o->error_text) {
        str_copy(e->error_text, (int64_t)sizeof e->error_text, o->error_text);
    }
}

/* Puts a sentence into the database. */
static int note(struct replay *r, const char *what, double s, const char *why) {
    char text[REPLAY_NOTE_MAX];
    snprintf(text, sizeof text, "run %lld: %s%.1f s%s%s", (long long)r->o->run_id, what, s,
             why ? ": " : "", why ? why : "");
    return store_note(r->o->store, r->o->session_id, r->o->run_id, clock_wall_ns(), text);
}

/* Watches whether the target can be reached at all (law 4). err: ERR_NET to end the run */
static int
watch_reach(struct replay *r, const struct replay_entry *e, const struct target_outcome *o) {
    if (!o->is_unreachable) {
        int64_t away = r->n_away > 0 ? e->end_ns - r->away_from_ns : 0;
        bool was = r->is_away && e->end_ns > r->away_from_ns;
        r->away_ns += was ? away : 0;
        r->is_away = false;
        r->n_away = 0;
        return was ? note(r, "the target answers again, after ", (double)away * 1e-9, NULL) : 0;
    }
    r->away_from_ns = r->n_away++ == 0 ? e->intended_ns : r->away_from_ns;
    int64_t away = e->end_ns - r->away_from_ns;
    if (r->is_away || away < AWAY_NS) {
        return 0;
    }
    r->is_away = true;
    int rc = note(r, "the target gives no answer for ", (double)away * 1e-9, e->error_text);
    return rc || !r->o->stop_on_error
               ? rc
               : err_set(ERR_NET, "no answer for %.1f s: %s", (double)away * 1e-9, e->error_text);
}

static int on_end(struct replay *r, struct replay_entry *e, const struct target_event *ev) {
    e->end_ns = ev->t_ns - r->start_ns;
    take_outcome(e, ev->outcome);
    if (ev->end == TARGET_FAILED) {
        e->error_class = ev->outcome->error_class;
    } else if (ev->end == TARGET_OK) {
        e->error_class = NULL; /* it was done before the cancel came */
    }
    const struct target_outcome *o = ev->outcome;
    bool is_spread = o->is_spread && e->n_event > 0;
    if (is_spread) { /* as store_spread does */
        e->n_output_first = e->n_output / e->n_event;
    }
    int rc = ev->end == TARGET_CANCELED ? 0 : watch_reach(r, e, o);
    request_over(r, e);
    int rc2 = replay_write(r->o->store, r->o->run_id, e);
    rc = rc ? rc : rc2;
    rc = rc || !o->wire
             ? rc
             : replay_write_wire(r->o->store, r->o->run_id, e->seq, r->start_ns, o->wire);
    if (!rc && is_spread) {
        rc = store_spread(r->o->store, r->o->run_id, e->seq, e->n_event, e->n_output);
    }
    return rc;
}

/* The entry of an event's request (law 1). */
static struct replay_entry *entry_of(struct replay *r, uint64_t tag) {
    while ((uint64_t)atomic_load(&r->n_entry) <= tag) {
        sched_yield();
    }
    return &r->entry[tag];
}

static int take_event(struct replay *r, const struct target_event *ev) {
    struct replay_entry *e = entry_of(r, ev->tag);
    switch (ev->kind) {
    case TARGET_SENT:
        e->actual_ns = ev->t_ns - r->start_ns;
        return 0;
    case TARGET_FIRST:
        e->event_ns = first_of(e->event_ns, ev->t_ns - r->start_ns);
        return 0;
    case TARGET_TOKENS:
        return on_tokens(r, e, ev);
    case TARGET_END:
    default:
        return on_end(r, e, ev);
    }
}

/* Takes what is there. out: *n events taken */
static int take_events(struct replay *r, int32_t *n) {
    struct target_event ev[256];
    int rc = 0;
    *n = target_poll(r->o->target, ev, ARRAY_LEN(ev));
    for (int32_t j = 0; j < *n && !rc; j++) {
        rc = take_event(r, &ev[j]);
    }
    return rc;
}

static int sample(struct replay *r) {
    struct target_sample s;
    int64_t t = now_of(r);
    if (t - r->sampled_ns < SAMPLE_NS || !target_sample(r->o->target, &s)) {
        return 0;
    }
    r->sampled_ns = t;
    return store_sample(r->o->store, &(struct store_sample){.run_id = r->o->run_id,
                                                            .t_ns = t,
                                                            .n_running = s.n_running,
                                                            .n_waiting = s.n_waiting,
                                                            .n_kv_blocks_used = s.n_kv_blocks_used,
                                                            .n_kv_blocks = s.n_kv_blocks,
                                                            .n_batch_tokens = s.n_batch_tokens});
}

/* Aborts what still runs, with the class that says why. */
static void abort_rest(struct replay *r, const char *error_class) {
    for (int32_t i = r->all_done; i < r->n_begun; i++) {
        struct replay_entry *e = &r->entry[i];
        if (e->end_ns >= 0) {
            r->all_done += i == r->all_done ? 1 : 0;
        } else if (!e->error_class && target_cancel(r->o->target, (uint64_t)i) == 0) {
            e->error_class = error_class;
        }
    }
}

static bool all_over(struct replay *r) {
    bool sending = atomic_load(&r->sending); /* before n_entry, which it may still raise */
    return !sending && r->n_done == atomic_load(&r->n_entry);
}

static int one_round(struct replay *r) {
    int32_t n = 0;
    int rc = begin_new(r);
    rc = rc ? rc : take_events(r, &n);
    rc = rc ? rc : sample(r);
    rc = rc ? rc : store_tick(r->o->store);
    return rc ? rc : target_error(r->o->target);
}

/* The caller's loop. out: *aborted when progress asked for the end */
static int record(struct replay *r, bool *aborted) {
    const struct scenario *sc = r->o->sc;
    const int64_t plan_ns = sc->duration_ns > 0 ? r->stop_ns : 0;
    const int64_t drain_ns = sc->drain_ns > 0 ? sc->drain_ns : DRAIN_DEFAULT_NS;
    int64_t shown = 0;
    int64_t give_up = INT64_MAX; /* when the drain is over */
    bool ending = false;
    while (!all_over(r)) {
        int64_t t = now_of(r);
        int rc = one_round(r);
        if (rc) {
            return rc;
        }
        if (give_up == INT64_MAX && (!atomic_load(&r->sending) || t >= r->stop_ns)) {
            give_up = t + drain_ns;
        }
        if (r->o->progress && t - shown > PROGRESS_NS) {
            shown = t;
            *aborted =
                *aborted || r->o->progress(r->o->ctx, (double)t * 1e-9, (double)plan_ns * 1e-9,
                                           r->n_done, atomic_load(&r->n_entry)) != 0;
        }
        if ((*aborted || t > give_up) && !ending) {
            ending = true;
            end_sending(r);
        }
        if (ending) { /* why: again and again, since the sender may have one more in its hands */
            abort_rest(r, *aborted ? "interrupted" : "drain_timeout");
        }
        clock_sleep_until(clock_now_ns() + POLL_NS);
    }
    return 0;
}

/* After a failure, with all threads gone: the last events, and an end for every request. */
static int settle(struct replay *r, const char *error_class) {
    int32_t n = 1;
    int rc = begin_new(r);
    while (!rc && n > 0) {
        rc = take_events(r, &n);
    }
    for (int32_t i = 0; i < r->n_begun && !rc; i++) {
        struct replay_entry *e = &r->entry[i];
        if (e->end_ns < 0) {
            e->end_ns = now_of(r);
            e->error_class = error_class;
            rc = replay_write(r->o->store, r->o->run_id, e);
        }
    }
    return rc;
}

static int init(struct replay *r) {
    const struct scenario *sc = r->o->sc;
    struct arrival_opts ao = {.kind = sc->arrival.kind,
                              .value = sc->arrival.points[r->o->point],
                              .cv = sc->arrival.cv,
                              .seed = (uint64_t)sc->seed,
                              .trace_ns = r->o->load->trace.start_ns,
                              .n_trace = r->o->load->trace.n};
    pthread_condattr_t attr;
    int rc = arrival_init(&r->arrival, &ao);
    r->cap = TARGET_REQUESTS_MAX;
    r->stop_ns = sc->duration_ns > 0 ? sc->warmup_ns + sc->duration_ns : INT64_MAX;
    r->n_user = !rc && ao.kind == ARRIVAL_CLOSED ? (int32_t)ao.value : 0;
    r->entry = mem_array(MEM_HARNESS, r->cap, (int64_t)sizeof *r->entry);
    r->ready = mem_array(MEM_HARNESS, r->n_user, (int64_t)sizeof *r->ready);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    return rc || (r->entry && r->ready) ? rc : ERR_NOMEM;
}

static void fini(struct replay *r) {
    mem_free(r->entry);
    mem_free(r->ready);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->wake);
}

/* Ends a target that failed: its error, behind an end for every request. */
static int give_up(struct replay *r, int target_rc) {
    char why[256];
    str_copy(why, (int64_t)sizeof why, err_msg());
    int rc = settle(r, target_rc == ERR_NET ? "interrupted" : r->o->target->broken);
    /* a failure of the store would be the graver news */
    return rc ? rc : err_set(target_rc, "%s", why);
}

static int run_threads(struct replay *r, bool *aborted) {
    pthread_t sender;
    int rc = target_start(r->o->target);
    if (rc) {
        return rc;
    }
    atomic_store(&r->sending, true);
    r->start_ns = clock_now_ns() + LEAD_NS;
    if (pthread_create(&sender, NULL, sender_thread, r) != 0) {
        rc = err_set(ERR_IO, "cannot start the sender's thread");
    } else {
        rc = record(r, aborted);
        end_sending(r);
        pthread_join(sender, NULL);
    }
    target_stop(r->o->target);
    int sender_rc = atomic_load(&r->sender_rc);
    int target_rc = rc == ERR_NET ? rc : (rc == ERR_DB ? 0 : target_error(r->o->target));
    if (target_rc) {
        return give_up(r, target_rc);
    }
    return rc || !sender_rc ? rc : err_set(sender_rc, "%s", r->sender_error);
}

int replay_run(const struct replay_opts *o, struct replay_result *out) {
    struct replay *r = mem_calloc(MEM_HARNESS, (int64_t)sizeof *r);
    if (!r) {
        return ERR_NOMEM;
    }
    r->o = o;
    *out = (struct replay_result){0};
    int rc = init(r);
    if (!rc) {
        rc = run_threads(r, &out->aborted);
        out->aborted = out->aborted || rc != 0;
        out->end_ns = i64_max(0, now_of(r));
        int64_t still_ns = r->is_away ? out->end_ns - r->away_from_ns : 0;
        out->away_s = (double)(r->away_ns + still_ns) * 1e-9;
        /* why: a phase without a last arrival is not shorter for it, nor are its rates higher */
        bool whole = atomic_load(&r->reached_stop) && !out->aborted;
        out->measured_to_ns = whole ? r->stop_ns : i64_min(r->stop_ns, out->end_ns);
        out->measured_from_ns = i64_min(o->sc->warmup_ns, out->measured_to_ns);
    }
    fini(r);
    mem_free(r);
    return rc;
}
