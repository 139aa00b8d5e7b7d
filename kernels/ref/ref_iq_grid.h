/* Codebooks of the IQ formats. Entry i packs the levels of a run of weights, the first in the
 * lowest bits: 8 numbers of 2 bits (IQ1, IQ2) or 4 of 3 bits (IQ3). */
#ifndef KERNELS_REF_REF_IQ_GRID_H
#define KERNELS_REF_REF_IQ_GRID_H

#include "engine/base/types.h"

extern const uint16_t ref_grid_iq2_xxs[256]; /* levels 8, 25, 43 */
extern const uint16_t ref_grid_iq2_xs[512];
extern const uint16_t ref_grid_iq2_s[1024];
extern const uint16_t ref_grid_iq3_xxs[256]; /* levels 4, 12, 20, 28, 36, 44, 52, 62 */
extern const uint16_t ref_grid_iq3_s[512];   /* levels 1, 3, ..., 15 */
extern const uint16_t ref_grid_iq1[2048];    /* levels -1, 0, 1 */

#endif
