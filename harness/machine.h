/* Facts of the machine and the build, for reports. */
#ifndef HARNESS_MACHINE_H
#define HARNESS_MACHINE_H

#include <jansson.h>

/* Processor, cores, memory, kernel, caches as one JSON object. own: caller, json_decref; NULL when
 * memory is short */
json_t *machine_facts(void);

/* "gcc 12.2.0, Release, -O2 -g1" */
const char *machine_build(void);

#endif
