/* Preloaded into a process, writes down every change of files below a folder, and may make one go wrong.
 *
 * disk_watch(root, log, n, fault): from now on changes below `root` are counted and, where `log` names a file, written
 * down there with all their bytes. Change number n goes wrong: fault > 0 is an errno that it ends with; fault < 0 is an
 * errno that it and all further growth end with, as on a full disk; 0 kills the process before it; KILL_HALFWAY kills
 * it after half of what it writes. disk_mark writes a word of the caller's down, in its place among the changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KILL_HALFWAY = 100000, FILES = 4096, PATH = 4096 };
static char root[PATH];
static int log_file = -1, fault = 0;
static long fatal = 0, changes = 0;
static ino_t tracked[FILES];

void disk_watch(const char *below, const char *log, long n, int what) {
  log_file = *log ? syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
  fatal = n, fault = what, changes = 0;
  strncpy(root, below, PATH - 1);
}
void disk_leave(void) { root[0] = 0; }
long disk_changes(void) { return changes; }

static int inside(const char *path) { return root[0] && !strncmp(path, root, strlen(root)); }
static int known(int file) { return root[0] && file >= 0 && file < FILES && tracked[file]; }

static void tell(const char *line, const void *bytes, size_t count) {
  if (log_file < 0) return;
  syscall(SYS_write, log_file, line, strlen(line));
  if (bytes) syscall(SYS_write, log_file, bytes, count);
  syscall(SYS_write, log_file, "\n", 1);
}

void disk_mark(const char *word) {
  char line[PATH];
  snprintf(line, PATH, "mark %s", word);
  if (root[0]) tell(line, 0, 0);
}

/* Whether the change goes on; the process may not live to learn it. */
static int goes_on(int grows, int file, const void *bytes, size_t count) {
  changes++;
  if (!fatal || changes < fatal || (changes > fatal && !(fault < 0 && grows))) return 1;
  if (fault == KILL_HALFWAY && bytes) syscall(SYS_write, file, bytes, count / 2);
  if (fault == 0 || fault == KILL_HALFWAY) kill(getpid(), SIGKILL);
  errno = fault < 0 ? -fault : fault;
  return 0;
}

#define REAL(name) ((__typeof__(&name))({ static void *found; if (!found) found = dlsym(RTLD_NEXT, #name); found; }))

static int opened(const char *path, int flags, mode_t mode, int (*next)(const char *, int, ...)) {
  int watched = inside(path), creates = watched && (flags & O_CREAT) && access(path, F_OK);
  int cuts = watched && (flags & O_TRUNC) && !creates;
  char line[PATH + 64];
  struct stat about;
  if ((creates || cuts) && !goes_on(creates, -1, 0, 0)) return -1;
  int file = next(path, flags, mode);
  if (file >= 0 && file < FILES) {
    tracked[file] = watched && !fstat(file, &about) ? about.st_ino : 0;
    if (creates) snprintf(line, sizeof line, "create %lu %s", (unsigned long)tracked[file], path), tell(line, 0, 0);
    if (cuts) snprintf(line, sizeof line, "cut %lu 0", (unsigned long)tracked[file]), tell(line, 0, 0);
  }
  return file;
}

#define OPENS(name)                                                                  \
  int name(const char *path, int flags, ...) {                                       \
    va_list rest;                                                                    \
    va_start(rest, flags);                                                           \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;          \
    va_end(rest);                                                                    \
    return opened(path, flags, mode, REAL(name));                                    \
  }
OPENS(open)
OPENS(open64)

int close(int file) {
  if (file >= 0 && file < FILES) tracked[file] = 0;
  return REAL(close)(file);
}

static ssize_t written(int file, const void *bytes, ssize_t done, off_t at) {
  char line[128];
  if (done >= 0) {
    snprintf(line, sizeof line, "write %lu %ld %ld ", (unsigned long)tracked[file], (long)at, (long)done);
    tell(line, bytes, done);
  }
  return done;
}

ssize_t write(int file, const void *bytes, size_t count) {
  if (!known(file)) return REAL(write)(file, bytes, count);
  if (!goes_on(1, file, bytes, count)) return -1;
  off_t at = fcntl(file, F_GETFL) & O_APPEND ? lseek(file, 0, SEEK_END) : lseek(file, 0, SEEK_CUR);
  return written(file, bytes, REAL(write)(file, bytes, count), at);
}

#define PWRITES(name, offset)                                                        \
  ssize_t name(int file, const void *bytes, size_t count, offset at) {               \
    if (!known(file)) return REAL(name)(file, bytes, count, at);                     \
    if (fault == KILL_HALFWAY && changes + 1 == fatal) lseek(file, at, SEEK_SET);    \
    if (!goes_on(1, file, bytes, count)) return -1;                                  \
    return written(file, bytes, REAL(name)(file, bytes, count, at), at);             \
  }
PWRITES(pwrite, off_t)
PWRITES(pwrite64, off64_t)

#define CHANGES(name, types, values, condition, grows, ...)                          \
  int name types {                                                                   \
    if (!(condition)) return REAL(name) values;                                      \
    if (!goes_on(grows, -1, 0, 0)) return -1;                                        \
    char line[3 * PATH];                                                             \
    int done = REAL(name) values;                                                    \
    if (!done) snprintf(line, sizeof line, __VA_ARGS__), tell(line, 0, 0);           \
    return done;                                                                     \
  }

CHANGES(ftruncate, (int file, off_t size), (file, size), known(file), 0, "cut %lu %ld", (unsigned long)tracked[file], (long)size)
CHANGES(ftruncate64, (int file, off64_t size), (file, size), known(file), 0, "cut %lu %ld", (unsigned long)tracked[file], (long)size)
CHANGES(fsync, (int file), (file), known(file), 0, "sync %lu", (unsigned long)tracked[file])
CHANGES(fdatasync, (int file), (file), known(file), 0, "sync %lu", (unsigned long)tracked[file])
CHANGES(rename, (const char *from, const char *to), (from, to), inside(to), 0, "rename %s\t%s", from, to)
CHANGES(link, (const char *from, const char *to), (from, to), inside(to), 1, "link %s\t%s", from, to)
CHANGES(unlink, (const char *path), (path), inside(path), 0, "unlink %s", path)
CHANGES(rmdir, (const char *path), (path), inside(path), 0, "unlink %s", path)

int unlinkat(int folder, const char *name, int flags) {
  char at[64], path[2 * PATH];
  ssize_t size = 0;
  snprintf(at, sizeof at, "/proc/self/fd/%d", folder);
  if (*name != '/' && folder != AT_FDCWD && (size = readlink(at, path, PATH)) > 0) path[size++] = '/';
  strncpy(path + (size > 0 ? size : 0), name, PATH - 1);
  if (!inside(path)) return REAL(unlinkat)(folder, name, flags);
  if (!goes_on(0, -1, 0, 0)) return -1;
  int done = REAL(unlinkat)(folder, name, flags);
  char line[3 * PATH];
  if (!done) snprintf(line, sizeof line, "unlink %s", path), tell(line, 0, 0);
  return done;
}

int mkdir(const char *path, mode_t mode) {
  if (!inside(path)) return REAL(mkdir)(path, mode);
  if (!goes_on(1, -1, 0, 0)) return -1;
  int done = REAL(mkdir)(path, mode);
  struct stat about;
  char line[2 * PATH];
  if (!done && !stat(path, &about))
    snprintf(line, sizeof line, "folder %lu %s", (unsigned long)about.st_ino, path), tell(line, 0, 0);
  return done;
}
