/* data_file.c: files that are read at positions, and errors about those that cannot be read. */
#include "data/data_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

cairn_error *crn_in_file(cairn_error *err, const char *path) {
    crn_error_clear(err);
    if (err != NULL)
        crn_copy_string(err->file, sizeof err->file, path);
    return err;
}

static cairn_status fail_system(cairn_error *err, const char *what, const char *path) {
    int reason = errno;
    return crn_fail(crn_in_file(err, path), CAIRN_EIO, "cannot be %s: %s", what, strerror(reason));
}

char *crn_data_path(cairn_data *data, const char *folder, const char *name) {
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    char *path = crn_arena_take(&data->arena, size, 1);
    if (path == NULL)
        return NULL;
    memcpy(path, folder, length);
    path[length] = '/';
    memcpy(path + length + 1, name, size - length - 1);
    return path;
}

cairn_status crn_data_check_folder(const char *path, cairn_error *err) {
    struct stat found;
    if (stat(path, &found) != 0) {
        if (errno == ENOENT)
            return crn_fail(crn_in_file(err, path), CAIRN_EUNKNOWN, "there is no such folder");
        return fail_system(err, "opened", path);
    }
    if (!S_ISDIR(found.st_mode))
        return crn_fail(crn_in_file(err, path), CAIRN_EINVAL, "is not a folder");
    return CAIRN_OK;
}

bool crn_data_exists(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0;
}

cairn_status crn_data_file_open(crn_data_file *file, const char *path, cairn_error *err) {
    struct stat found;
    *file = (crn_data_file){.path = path, .fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (fd < 0 && errno == ENOENT)
        return crn_fail(crn_in_file(err, path), CAIRN_EUNKNOWN, "there is no such file");
    if (fd < 0)
        return fail_system(err, "opened", path);
    file->fd = fd;
    cairn_status status = CAIRN_OK;
    if (fstat(fd, &found) != 0)
        status = fail_system(err, "opened", path);
    else if (!S_ISREG(found.st_mode))
        status = crn_fail(crn_in_file(err, path), CAIRN_EINVAL, "is not a regular file");
    else
        file->bytes = (uint64_t)found.st_size;
    if (status != CAIRN_OK)
        crn_data_file_close(file);
    return status;
}

void crn_data_file_close(crn_data_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

cairn_status crn_data_file_read(const crn_data_file *file, uint64_t offset, void *to, size_t bytes,
                                cairn_error *err) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_system(err, "read", file->path);
        if (got == 0)
            return crn_fail(crn_in_file(err, file->path), CAIRN_EIO,
                            "ends after %llu bytes; there were %llu when it was opened",
                            (unsigned long long)(offset + done), (unsigned long long)file->bytes);
        done += (size_t)got;
    }
    return CAIRN_OK;
}
