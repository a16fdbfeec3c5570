/* picture.h: graphviz, for pictures of graphs. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "cli.h"

/* Write `dot` (a graph for graphviz), which it releases, to `path`: as it is, or drawn by
 * graphviz's `dot` where the name ends in .svg. Returns an exit code. */
int cli_draw(cairn_text *dot, const char *path);

#endif
