/* save_file.h: write a file whole or not at all.
 *
 *     begin: make FILE.tmp.PID     put, put, ...     end: flush it, rename it to FILE, flush the
 *                                                    folder
 *
 * Until the rename FILE is unchanged; a failure removes the temporary file. Only a process that
 * is killed leaves one behind. Anything but a regular file (a pipe, a device) is written to
 * directly. */
#ifndef CRN_SAVE_FILE_H
#define CRN_SAVE_FILE_H

#include "base/crn_base.h"

typedef struct crn_save {
    const char *path;
    char temporary[4096]; /* empty: `path` is written to directly */
    int fd;
    int reason; /* errno of the first failure; 0: none */
} crn_save;

/* CAIRN_EIO with the system's reason in errno: "cannot WHAT PATH: REASON". */
cairn_status crn_fail_file(cairn_error *err, const char *what, const char *path);

/* Unless CAIRN_OK there is nothing to end. `path` is borrowed until the end. */
CAIRN_MUST cairn_status crn_save_begin(crn_save *save, const char *path, cairn_error *err);

/* After a failure, which the end reports, this does nothing. */
void crn_save_put(crn_save *save, const void *bytes, size_t length);

/* Cancel, instead of the end: the file is unchanged. */
void crn_save_cancel(crn_save *save);

/* CAIRN_OK: the file exists, and still exists after a power failure. */
CAIRN_MUST cairn_status crn_save_end(crn_save *save, cairn_error *err);

#endif
