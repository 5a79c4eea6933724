/* flood KIND COUNT: many execs.
 *   forbidden  of `git push`
 *   blind      of the ELF loader named by LOADER, with an environment that cannot be read
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    char *push[] = {"git", "push", "origin", "HEAD:main", NULL};
    char *load[] = {"ld.so", "/bin/true", NULL};
    int blind = !strcmp(argv[1], "blind");
    int refused = 0;
    for (int n = atoi(argv[2]); n > 0; n--) {
        int status = 0;
        pid_t pid = vfork();
        if (pid == 0) {
            if (blind)
                execve(getenv("LOADER"), load, (char **)16);
            else
                execve("/usr/bin/git", push, environ);
            _exit(77);
        }
        waitpid(pid, &status, 0);
        refused += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("%d refused\n", refused);
    return 0;
}
