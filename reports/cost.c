/* usd/Mtok = (usd/h / 3600) / (tok/s) * 10^6. The machine is paid for the whole time, so idle time
 * is in the price: it is the price at this load, not at the best one. */
#include "reports/cost.h"

#include <math.h>

static double price(double usd_per_hour, double tokens_per_s) {
    return tokens_per_s > 0 ? usd_per_hour / 3600 / tokens_per_s * 1e6 : (double)NAN;
}

struct stat_ci cost_usd_per_mtok(double usd_per_hour, struct stat_ci tokens_per_s) {
    if (!(usd_per_hour > 0)) {
        return stat_none();
    }
    return (struct stat_ci){price(usd_per_hour, tokens_per_s.value),
                            price(usd_per_hour, tokens_per_s.hi),
                            price(usd_per_hour, tokens_per_s.lo)};
}
