/* save_file.c: files that are replaced as a whole; see save_file.h. */
#include "base/save_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

cairn_status crn_fail_file(cairn_error *err, const char *what, const char *path) {
    int reason = errno;
    return crn_fail(err, CAIRN_EIO, "cannot %s %s: %s", what, path, strerror(reason));
}

static cairn_status open_directly(crn_save *save, cairn_error *err) {
    save->fd = open(save->path, O_WRONLY | O_CLOEXEC);
    return save->fd < 0 ? crn_fail_file(err, "open", save->path) : CAIRN_OK;
}

/* A file of that name was left by a killed process with the same number. It is removed and not
 * overwritten, because it could be a link to another file. */
static cairn_status open_temporary(crn_save *save, cairn_error *err) {
    int length =
        snprintf(save->temporary, sizeof save->temporary, "%s.tmp.%ld", save->path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof save->temporary) {
        errno = ENAMETOOLONG;
        return crn_fail_file(err, "write", save->path);
    }
    unlink(save->temporary);
    save->fd = open(save->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return save->fd < 0 ? crn_fail_file(err, "write", save->path) : CAIRN_OK;
}

cairn_status crn_save_begin(crn_save *save, const char *path, cairn_error *err) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    save->path = path;
    save->temporary[0] = '\0';
    save->reason = 0;
    if (exists && S_ISDIR(old.st_mode)) {
        errno = EISDIR;
        return crn_fail_file(err, "write", path);
    }
    return exists && !S_ISREG(old.st_mode) ? open_directly(save, err) : open_temporary(save, err);
}

void crn_save_put(crn_save *save, const void *bytes, size_t length) {
    const char *from = bytes;
    while (length > 0 && save->reason == 0) {
        ssize_t written = write(save->fd, from, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            save->reason = errno;
            return;
        }
        from += written;
        length -= (size_t)written;
    }
}

/* Note why a call failed, if it is the first to. */
static void note(crn_save *save, bool good) {
    if (!good && save->reason == 0)
        save->reason = errno;
}

/* A rename lasts when the folder is flushed. Not every file system can do that, nor may every user
 * open every folder: then the system flushes it later. */
static void flush_folder(crn_save *save) {
    char folder[sizeof save->temporary];
    crn_copy_string(folder, sizeof folder, save->path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        crn_copy_string(folder, sizeof folder, ".");
    else
        slash[slash == folder] = '\0';
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    note(save, fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    close(fd);
}

static cairn_status report(const crn_save *save, cairn_error *err) {
    if (save->reason == 0)
        return CAIRN_OK;
    errno = save->reason;
    return crn_fail_file(err, "write", save->path);
}

void crn_save_cancel(crn_save *save) {
    close(save->fd);
    if (save->temporary[0] != '\0')
        unlink(save->temporary);
}

cairn_status crn_save_end(crn_save *save, cairn_error *err) {
    bool temporary = save->temporary[0] != '\0';
    if (temporary && save->reason == 0)
        note(save, fsync(save->fd) == 0);
    note(save, close(save->fd) == 0);
    if (!temporary)
        return report(save, err);
    if (save->reason == 0)
        note(save, rename(save->temporary, save->path) == 0);
    if (save->reason == 0)
        flush_folder(save);
    else
        unlink(save->temporary);
    return report(save, err);
}
