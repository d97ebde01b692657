/* Moves the clock of the program that it is preloaded into, by the microseconds in the first 8 bytes of the file SKEW_FILE.
   Only the wall clock moves; timers and time-outs go on as they were. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *skew;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SKEW_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) skew = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && skew && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long by = *skew, nanos = time->tv_nsec + (by % 1000000) * 1000;
        time->tv_sec += by / 1000000;
        if (nanos < 0) { nanos += 1000000000; time->tv_sec--; }
        if (nanos >= 1000000000) { nanos -= 1000000000; time->tv_sec++; }
        time->tv_nsec = nanos;
    }
    return result;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    (void)zone;
    struct timespec time;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    if (value) { value->tv_sec = time.tv_sec; value->tv_usec = time.tv_nsec / 1000; }
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
