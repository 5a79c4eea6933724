/* race KIND SECONDS: execute something harmless again and again while somebody else turns it into
 * `git push origin HEAD:main`. KIND: what is turned, and by whom.
 *   word    the first argument, by a thread       shared  by a process, in a shared mapping
 *   clone   by a process with this memory         path    the last letter of the path, by a thread
 *   link    a symbolic link to the program        script  a script with one or another interpreter
 *   folder  a directory on the way to the program
 * With `allowed` it is a link from `ls` itself to `evil/ls`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static volatile unsigned *word;
static volatile char *letter;
static void (*turn)(unsigned);

static void turn_word(unsigned odd)
{
    *word = odd ? 0x68737570 : 0x776f6873; /* "push", "show" */
}

static void turn_letter(unsigned odd)
{
    *letter = odd ? 'f' : 'a';
}

static void turn_link(unsigned odd)
{
    symlink(odd ? "/usr/bin/git" : "/bin/true", "next");
    rename("next", "x");
}

static void turn_allowed(unsigned odd)
{
    symlink(odd ? "evil/ls" : "/usr/bin/ls", "next");
    rename("next", "ls");
}

static void turn_script(unsigned odd)
{
    link(odd ? "f" : "a", "next");
    rename("next", "push");
}

static void turn_folder(unsigned odd)
{
    (void)odd;
    renameat2(AT_FDCWD, "d", AT_FDCWD, "e", 2); /* RENAME_EXCHANGE */
}

static int turning(void *unused)
{
    (void)unused;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0;; i++) {
        turn(i & 1);
        for (volatile unsigned wait = 0; wait < i % 2000; wait++)
            ;
    }
    return 0;
}

static void *turning_thread(void *unused)
{
    turning(unused);
    return NULL;
}

static void write_script(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    fputs(text, file);
    fclose(file);
    chmod(name, 0755);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *kind = argv[1];
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *path = strcpy(page, "/usr/bin/git");
    char *first = strcpy(page + 64, "push");
    char *arguments[] = {"git", first, "origin", "HEAD:main", NULL};
    char *bare[] = {"push", "origin", "HEAD:main", NULL};
    char **with = arguments;
    word = (unsigned *)first;
    turn = turn_word;
    if (!strcmp(kind, "path")) {
        symlink("/bin/true", "xa");
        symlink("/usr/bin/git", "xf");
        strcpy(path, "./xa");
        letter = path + 3;
        turn = turn_letter;
    } else if (!strcmp(kind, "link")) {
        strcpy(path, "./x");
        turn = turn_link;
    } else if (!strcmp(kind, "allowed")) {
        strcpy(path, "./ls");
        with = bare + 2;
        bare[2] = "ls";
        turn = turn_allowed;
    } else if (!strcmp(kind, "folder")) {
        mkdir("d", 0755);
        mkdir("e", 0755);
        symlink("/bin/true", "d/x");
        symlink("/usr/bin/git", "e/x");
        strcpy(path, "d/x");
        turn = turn_folder;
    } else if (!strcmp(kind, "script")) {
        write_script("a", "#!/bin/true\n");
        write_script("f", "#!/usr/bin/git\n");
        strcpy(path, "push");
        with = bare;
        turn = turn_script;
    }
    if (!strcmp(kind, "word") || !strcmp(kind, "path")) {
        pthread_t thread;
        pthread_create(&thread, NULL, turning_thread, NULL);
    } else if (!strcmp(kind, "clone")) {
        char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        clone(turning, stack + 65536, CLONE_VM | SIGCHLD, NULL);
    } else if (fork() == 0) {
        turning(NULL);
    }
    unsigned tries = 0, killed = 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + atof(argv[2]);
    do {
        pid_t pid;
        int status;
        tries++;
        if (posix_spawn(&pid, path, NULL, NULL, with, environ) == 0) {
            waitpid(pid, &status, 0);
            killed += WIFSIGNALED(status);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < end);
    printf("%u tries, %u killed\n", tries, killed);
    fflush(stdout);
    return 0;
}
