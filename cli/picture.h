/* picture.h: graphviz, for pictures of graphs. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "model.h"

/* Write `dot` (a graph for graphviz), which it releases, to `path`: as it is, or drawn by
 * graphviz's `dot` where the name ends in .svg. Returns an exit code. */
int cli_draw(cairn_text *dot, const char *path);

/* Draw the network with the checkpoints that a search chooses in green and, where it is a chain,
 * Chen's in red. Returns an exit code. */
int cli_draw_checkpoints(const cli_model *model, const char *algorithm, uint64_t seed,
                         const char *path);

#endif
