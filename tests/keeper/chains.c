/* COUNT chains of processes, none of which lives for long, for SECONDS: each leaves its session and
   its parent for a child, and ends. */

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    int count = atoi(argv[1]);
    long long end = now() + atof(argv[2]) * 1e9;
    while (count-- > 0) {
        if (fork())
            continue;
        while (now() < end) {
            setsid();
            if (fork())
                _exit(0);
        }
        _exit(0);
    }
    for (;;)
        pause();
}
