/* Programs that execute and are met by SIGKILL, SIGSTOP and SIGCONT at random moments.
 *
 * storm ROUNDS SEED LEAST MOST: makes ROUNDS victims, one after the other, each of which executes in
 *   one of the ways programs do; a signal comes LEAST to MOST microseconds later. Prints, when all
 *   is well, "ROUNDS rounds, N execs ran, N killed"; status 1 and a sentence when a victim is not
 *   told dead within a minute, or somebody traces who should have let go.
 * storm leaf: what they execute: ends at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RAN = 42, PATIENCE = 60 };
extern char **environ;

static char *self;
static unsigned long state;
static long least, most;

static unsigned long chance(unsigned long below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void pause_for(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static long moment(void)
{
    return least + (long)chance(most - least + 1);
}

static void execute(void)
{
    char *leaf[] = {self, "leaf", NULL};
    char *shell[] = {"sh", "-c", "exec \"$0\" leaf", self, NULL};
    char *missing[] = {"missing", NULL};
    switch (chance(8)) {
    case 0:
        execve("/bin/sh", shell, environ);
        break;
    case 1:
        execve("/nonexistent/program", missing, environ);
        break;
    }
    execve(self, leaf, environ);
    _exit(errno);
}

static void *executing(void *barrier)
{
    if (barrier)
        pthread_barrier_wait(barrier);
    execute();
    return NULL;
}

static void *busy(void *unused)
{
    for (;;)
        getppid();
    return unused;
}

static volatile pid_t born;

/* Kills the child of this very process before anybody has waited for it: its id is its own. */
static void *killing(void *unused)
{
    pause_for(moment());
    if (born > 0)
        kill(born, SIGKILL);
    return unused;
}

static void have_child(int way)
{
    pthread_t killer;
    pid_t pid = 0;
    char *leaf[] = {self, "leaf", NULL};
    if (way == 0)
        pthread_create(&killer, NULL, killing, NULL);
    switch (way) {
    case 0:
    case 1:
        pid = vfork();
        break;
    case 2:
        pid = fork();
        break;
    default:
        posix_spawn(&pid, self, NULL, NULL, leaf, environ);
    }
    if (pid == 0) {
        born = getpid(); /* of a vfork child its parent sees it */
        char *again[] = {self, "leaf", NULL};
        execve(self, again, environ);
        _exit(errno);
    }
    if (way == 0)
        pthread_join(killer, NULL);
    else if (chance(2))
        kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    _exit(RAN);
}

static void be_victim(void)
{
    pthread_t thread;
    pthread_barrier_t barrier;
    int way = chance(11);
    setpgid(0, 0);
    switch (way) {
    case 0:
    case 1:
    case 2:
    case 3:
        have_child(way);
        break;
    case 4: /* the leader, among others */
        for (int i = chance(5); i > 0; i--)
            pthread_create(&thread, NULL, busy, NULL);
        execute();
        break;
    case 5: /* several at once */
        pthread_barrier_init(&barrier, NULL, 4);
        for (int i = 0; i < 3; i++)
            pthread_create(&thread, NULL, executing, &barrier);
        executing(&barrier);
        break;
    case 6: /* the leader has ended, and nobody may wait for it yet */
        pthread_create(&thread, NULL, executing, NULL);
        pthread_exit(NULL);
    case 7: /* nested: a storm of its own, of a few rounds */
        if (chance(8) == 0) {
            char *storm[] = {self, "3", "1", "0", "500", NULL};
            storm[2] = (char[]){(char)('1' + chance(9)), 0};
            execve(self, storm, environ);
        }
        execute();
        break;
    default: /* a thread that is not the leader */
        for (int i = chance(4); i > 0; i--)
            pthread_create(&thread, NULL, busy, NULL);
        pthread_create(&thread, NULL, executing, NULL);
        for (;;)
            pause();
    }
}

static void meet(pid_t victim)
{
    pid_t whom = chance(2) ? victim : -victim; /* one, or its whole group if there is one yet */
    pause_for(moment());
    if (chance(4) == 0) {
        kill(whom, SIGSTOP);
        pause_for(moment() / 4);
        if (chance(2))
            kill(whom, SIGCONT);
    }
    if (chance(8) == 0) {
        kill(whom, SIGCONT);
        return; /* nothing more than a stop */
    }
    if (kill(whom, SIGKILL) != 0)
        kill(victim, SIGKILL);
}

static int traced(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    char *line = strstr(text, "TracerPid:");
    return line ? atoi(line + 10) : 0;
}

static int ended(pid_t victim, int *status)
{
    for (long waited = 0; waited < PATIENCE * 5000L; waited++) {
        pid_t found = waitpid(victim, status, WNOHANG);
        if (found != 0)
            return found == victim;
        pause_for(waited < 50 ? 20 : 200);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "leaf"))
        return RAN;
    self = argv[0];
    long rounds = atol(argv[1]), ran = 0, killed = 0;
    state = strtoul(argv[2], NULL, 10) * 2654435761u + 88172645463325252u;
    least = atol(argv[3]);
    most = atol(argv[4]);
    for (long round = 0; round < rounds; round++) {
        unsigned long seed = chance(1UL << 40) | 1;
        pid_t victim = fork();
        if (victim == 0) {
            state = seed;
            be_victim();
        }
        meet(victim);
        int status = 0;
        if (victim < 0 || !ended(victim, &status)) {
            printf("round %ld: %d was not told dead; traced by %d\n", round, victim, traced(victim));
            return 1;
        }
        killed += WIFSIGNALED(status);
        ran += WIFEXITED(status) && WEXITSTATUS(status) == RAN;
    }
    if (traced(getpid())) {
        printf("still traced by %d\n", traced(getpid()));
        return 1;
    }
    printf("%ld rounds, %ld ran, %ld killed\n", rounds, ran, killed);
    return 0;
}
