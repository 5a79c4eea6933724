/* lone KIND: `git push origin HEAD:main` by a caller out of the ordinary.
 *   thread    one that is not its process's first    sibling   one that is the shell's sibling
 *   hidden    one that may not be looked at          listener  one that listens to its own execs
 *   deaf      one whose own filter fails openat(2)   storm     one under a hail of signals
 *   traced    one that asks to be traced             full      one without a free descriptor
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *push(void *unused)
{
    char *words[] = {"git", "push", "origin", "HEAD:main", NULL};
    execve("/usr/bin/git", words, environ);
    perror("execve");
    _exit(1);
    return unused;
}

static int filter(int number, unsigned answer, unsigned flags)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, lines};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int result = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (result < 0)
        perror("seccomp");
    return result;
}

static void nothing(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, push, NULL);
        pthread_join(thread, NULL);
    } else if (!strcmp(kind, "sibling")) {
        if (syscall(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
            push(NULL);
        sleep(1); /* not our child: nothing to wait for */
        return 0;
    } else if (!strcmp(kind, "hidden")) {
        prctl(PR_SET_DUMPABLE, 0);
    } else if (!strcmp(kind, "listener")) {
        int listener = filter(__NR_execve, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (listener >= 0 && fork() == 0) {
            alarm(2);
            for (;;) {
                struct seccomp_notif asked = {0};
                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
                    return 0;
                struct seccomp_notif_resp told = {asked.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
                ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &told);
            }
        }
    } else if (!strcmp(kind, "deaf")) {
        filter(__NR_openat, SECCOMP_RET_ERRNO | EIO, 0);
    } else if (!strcmp(kind, "storm")) {
        signal(SIGURG, nothing);
        pid_t pid = fork();
        if (pid) {
            while (waitpid(pid, NULL, WNOHANG) == 0)
                kill(pid, SIGURG);
            return 0;
        }
    } else if (!strcmp(kind, "traced")) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
            perror("ptrace");
        signal(SIGTRAP, SIG_IGN);
    } else if (!strcmp(kind, "full")) {
        struct rlimit few = {16, 16};
        setrlimit(RLIMIT_NOFILE, &few);
        while (fcntl(0, F_DUPFD_CLOEXEC, 0) >= 0)
            ;
    }
    push(NULL);
    return 0;
}
