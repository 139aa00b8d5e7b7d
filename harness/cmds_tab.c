#include "harness/cmds.h"

#define CMD_ROW(name) &cmd_##name,
static const struct cmd *const cmds[] = {CMD_MAP(CMD_ROW)};
#undef CMD_ROW

const struct cmd *cmd_at(int32_t i) {
    return i >= 0 && i < ARRAY_LEN(cmds) ? cmds[i] : NULL;
}
