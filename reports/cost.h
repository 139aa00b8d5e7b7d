/* Money per token from the price of a machine. */
#ifndef REPORTS_COST_H
#define REPORTS_COST_H

#include "reports/stat.h"

/* US dollars per million output tokens at a given rate.
 * in:   usd_per_hour NaN or 0: no price is known; tokens_per_s with its interval
 * out:  value and bounds (the low rate gives the high price); NaN where the rate is NaN or 0 */
struct stat_ci cost_usd_per_mtok(double usd_per_hour, struct stat_ci tokens_per_s);

#endif
