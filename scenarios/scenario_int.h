/* The parts of a scenario file; each is read and printed by one .c of this folder. */
#ifndef SCENARIOS_SCENARIO_INT_H
#define SCENARIOS_SCENARIO_INT_H

#include "scenarios/scenario.h"

/* Each parser reads one section into sc; each printer appends it, with its key, to b.
 * err: as scenario_parse, scenario_format */
int scenario_parse_targets(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
int scenario_format_targets(const struct scenario *sc, struct buf *b);

/* The lists of an http target (urls, headers), which no table holds, and what must fit together. */
int scenario_parse_http(const struct scyaml *y, struct fy_node *n, struct scenario_http *h);
int scenario_format_http(const struct scenario_http *h, int32_t indent, struct buf *b);

int scenario_parse_workload(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
int scenario_format_workload(const struct scenario *sc, struct buf *b);

int scenario_parse_arrival(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
int scenario_format_arrival(const struct scenario *sc, struct buf *b);

int scenario_parse_slo(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
int scenario_format_slo(const struct scenario *sc, struct buf *b);

int scenario_parse_evaluate(const struct scyaml *y, struct fy_node *n, struct scenario *sc);
int scenario_format_evaluate(const struct scenario *sc, struct buf *b);

#endif
