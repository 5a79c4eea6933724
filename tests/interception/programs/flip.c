/* flip TRIES SECONDS FILE [OTHER]: posix_spawn FILE again and again while another thread flips the
 * last character of its path and its argument between `a` and `f`; or, with OTHER, the NUL that
 * ends its path to the slash with which OTHER, that lies behind it, begins. Prints how the children
 * ended: allowed (3), forbidden (4), killed, else; how many were refused; the number of tries.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static volatile char *last_of_path, *argument, *terminator;

static void *flipper(void *unused)
{
    (void)unused;
    for (unsigned i = 0;; i++) {
        if (terminator) {
            *terminator = i & 1 ? '/' : '\0';
        } else {
            *last_of_path = i & 1 ? 'f' : 'a';
            *argument = i & 2 ? 'f' : 'a';
        }
        for (volatile int wait = 0; wait < (int)(i % 1000); wait++)
            ;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int allowed = 0, forbidden = 0, killed = 0, other = 0, refused = 0, tries = 0;
    char word[] = "a";
    char path[8192];
    char *arguments[] = {path, word, NULL};
    char *environment[] = {NULL};
    pthread_t thread;
    time_t limit = time(NULL) + atoi(argv[2]);
    strcpy(path, argv[3]);
    last_of_path = path + strlen(path) - 1;
    argument = word;
    if (argc > 4) {
        terminator = last_of_path + 1;
        strcpy((char *)terminator, argv[4]);
        *terminator = '\0';
    }
    pthread_create(&thread, NULL, flipper, NULL);
    while (tries < atoi(argv[1]) && time(NULL) < limit) {
        pid_t pid;
        int status;
        tries++;
        if (posix_spawn(&pid, path, NULL, NULL, arguments, environment)) {
            refused++;
            continue;
        }
        waitpid(pid, &status, 0);
        if (WIFSIGNALED(status))
            killed++;
        else if (WEXITSTATUS(status) == 3)
            allowed++;
        else if (WEXITSTATUS(status) == 4)
            forbidden++;
        else
            other++;
    }
    printf("%d %d %d %d %d %d\n", allowed, forbidden, killed, other, refused, tries);
    return 0;
}
