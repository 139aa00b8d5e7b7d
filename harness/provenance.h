/* Where a checkpoint came from, and how it stands in the results database. */
#ifndef HARNESS_PROVENANCE_H
#define HARNESS_PROVENANCE_H

#include "engine/run/model.h"
#include "harness/cli.h"
#include "reports/store.h"

enum { PROVENANCE_MAX = 512 };

/* The sentence kept beside a checkpoint (trilemma.json in its folder); "" when there is none. */
void provenance_read(const char *path, char dst[PROVENANCE_MAX]);

/* Writes it. err: ERR_IO */
int provenance_write(const char *dir, const char *source);

/* Begins a session of the given kind with the facts of machine and build.
 * in: scenario_name, scenario_text may be NULL; usd NaN: not known */
int provenance_session(struct store *s,
                       const char *kind,
                       const char *scenario_name,
                       const char *scenario_text,
                       int64_t seed,
                       double usd,
                       int64_t *session_id);

/* Ends what provenance_session began (session_id 0: nothing) as "done" or "aborted" and closes the
 * store. in: s may be NULL. err: rc itself with its own sentence, else that of the store */
int provenance_end(struct store *s, int64_t session_id, bool aborted, int rc);

/* Records a checkpoint. cost: reads all its bytes for the hash */
int provenance_checkpoint(struct store *s, const struct model *m, const char *path, int64_t *id);

#endif
