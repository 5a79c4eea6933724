/* Processes, in great numbers.

   forks chains COUNT SECONDS: each of so many leaves its session and its parent for a child, again
   and again. forks storm COUNT: so many that nobody waits for end at once. forks orphans COUNT: so
   many lose their parent at the same moment, and end then. */

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void chains(int count, double seconds) {
    double end = now() + seconds;
    int child;
    while (count-- > 0) {
        if (fork())
            continue;
        while (now() < end) {
            setsid();
            while ((child = fork()) < 0 && now() < end) /* there are as many as there may be */
                ;
            if (child)
                _exit(0);
        }
        _exit(0);
    }
    for (;;)
        pause();
}

static void storm(int count) {
    while (count-- > 0)
        if (vfork() == 0) {
            if (vfork() == 0)
                _exit(0);
            _exit(0);
        }
}

static void orphans(int count) {
    char none;
    int ends[2];
    pipe(ends);
    while (count-- > 0)
        if (fork() == 0) {
            close(ends[1]);
            read(ends[0], &none, 1);
            _exit(0);
        }
}

int main(int argc, char **argv) {
    int count = atoi(argv[2]);
    if (strcmp(argv[1], "chains") == 0)
        chains(count, atof(argv[3]));
    else if (strcmp(argv[1], "storm") == 0)
        storm(count);
    else
        orphans(count);
    return 0;
}
