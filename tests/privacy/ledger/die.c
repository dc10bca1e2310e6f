/* Preloaded into a process, kills it (SIGKILL) just before its n-th call that changes a file or sends to a server.
 * What a killed process leaves behind changes at such calls only, so trying every n tries every point of death. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

static long fatal = 0, steps = 0;

void die_at(long n) { fatal = n; steps = 0; }
long steps_taken(void) { return steps; }

static void step(void) {
  if (++steps == fatal) kill(getpid(), SIGKILL);
}

#define CHANGES(result, name, types, values)                                   \
  result name types {                                                          \
    static result(*next) types;                                                \
    if (!next) next = (result(*) types)dlsym(RTLD_NEXT, #name);                \
    step();                                                                    \
    return next values;                                                        \
  }

CHANGES(ssize_t, write, (int f, const void *b, size_t n), (f, b, n))
CHANGES(ssize_t, pwrite, (int f, const void *b, size_t n, off_t at), (f, b, n, at))
CHANGES(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t at), (f, b, n, at))
CHANGES(ssize_t, send, (int s, const void *b, size_t n, int flags), (s, b, n, flags))
CHANGES(ssize_t, sendto, (int s, const void *b, size_t n, int flags, const struct sockaddr *to, socklen_t size),
        (s, b, n, flags, to, size))
CHANGES(int, ftruncate, (int f, off_t n), (f, n))
CHANGES(int, ftruncate64, (int f, off64_t n), (f, n))
CHANGES(int, unlink, (const char *path), (path))
CHANGES(int, rename, (const char *from, const char *to), (from, to))

/* Counted and left out: what a killed process wrote outlives it, synced or not, and a disk takes its time. */
#define SYNCS(name)                                                            \
  int name(int f) {                                                            \
    step();                                                                    \
    return 0;                                                                  \
  }

SYNCS(fsync)
SYNCS(fdatasync)

#define OPENS(name)                                                            \
  int name(const char *path, int flags, ...) {                                 \
    static int (*next)(const char *, int, ...);                                \
    if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
    va_list rest;                                                              \
    va_start(rest, flags);                                                     \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;    \
    va_end(rest);                                                              \
    if (flags & O_CREAT) step();                                               \
    return next(path, flags, mode);                                            \
  }

OPENS(open)
OPENS(open64)
