/* Executes a program in one of the ways programs do, and tells whether its own memory changed.
 *
 * caller fork|vfork|spawn|goroutine COUNT FILE ARG...: start it COUNT times, print per child the
 *   wait status, then "intact" or "CHANGED".
 * caller exec|thread|deep FILE ARG...: become it: from the main thread, from another one, from
 *   another one while ten more threads are busy.
 * caller rivals FILE ARG...: eight threads at once want to become it.
 * caller handler FILE ARG...: become it; a handler of SIGUSR1 becomes `FILE handled` instead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

static char *file;
static char **arguments;
static volatile long child;

/* A goroutine's stack is a small block of the heap with other blocks around it. */
static struct {
    unsigned char before[65536];
    unsigned char stack[16384];
    unsigned char after[65536];
} heap;

static ucontext_t here, there;
static unsigned char *deepest;

/* As Go's forkAndExecInChild: no stack of its own, nothing called between clone and execve. libc's
 * vfork and execve would do neither: bound lazily, they write below the stack pointer. */
static void on_small_stack(void)
{
    long pid;
#if defined(__x86_64__)
    __asm__("lea -128(%%rsp), %0" : "=r"(deepest)); /* below the red zone */
#else
    __asm__("mov %0, sp" : "=r"(deepest));
#endif
    for (unsigned char *p = heap.stack; p < deepest; p++)
        *p = 0x5a;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile(
        "syscall\n"
        "test %%rax, %%rax\n"
        "jnz 1f\n"
        "mov %[file], %%rdi\n"
        "mov %[argv], %%rsi\n"
        "mov %[envp], %%rdx\n"
        "mov $59, %%eax\n"
        "syscall\n"
        "mov %%rax, %%rdi\n"
        "neg %%rdi\n"
        "mov $231, %%eax\n"
        "syscall\n"
        "1:\n"
        : "=a"(pid)
        : "0"((long)SYS_clone), "D"((long)(CLONE_VM | CLONE_VFORK | SIGCHLD)), "S"(0L), "d"(0L),
          "r"(r10), "r"(r8), [file] "r"(file), [argv] "r"(arguments), [envp] "r"(environ)
        : "rcx", "r11", "memory");
#else
    register long x0 __asm__("x0") = CLONE_VM | CLONE_VFORK | SIGCHLD;
    register long x1 __asm__("x1") = 0;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = 0;
    register long x8 __asm__("x8") = SYS_clone;
    __asm__ volatile(
        "svc #0\n"
        "cbnz x0, 1f\n"
        "mov x0, %[file]\n"
        "mov x1, %[argv]\n"
        "mov x2, %[envp]\n"
        "mov x8, #221\n" /* execve */
        "svc #0\n"
        "neg x0, x0\n"
        "mov x8, #94\n" /* exit_group */
        "svc #0\n"
        "1:\n"
        : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x8)
        : "r"(x3), "r"(x4), [file] "r"(file), [argv] "r"(arguments), [envp] "r"(environ)
        : "memory");
    pid = x0;
#endif
    child = pid;
}

static int heap_changed(void)
{
    for (unsigned i = 0; i < sizeof heap.before; i++)
        if (heap.before[i] != 0xa5 || heap.after[i] != 0xa5)
            return 1;
    for (unsigned char *p = heap.stack; p < deepest; p++)
        if (*p != 0x5a)
            return 1;
    return 0;
}

static long start(const char *way)
{
    if (!strcmp(way, "goroutine")) {
        memset(&heap, 0xa5, sizeof heap);
        getcontext(&there);
        there.uc_stack.ss_sp = heap.stack;
        there.uc_stack.ss_size = sizeof heap.stack;
        there.uc_link = &here;
        makecontext(&there, on_small_stack, 0);
        swapcontext(&here, &there);
    } else if (!strcmp(way, "spawn")) {
        pid_t pid = 0;
        int error = posix_spawn(&pid, file, NULL, NULL, arguments, environ);
        child = error ? -error : pid;
    } else {
        child = !strcmp(way, "vfork") ? vfork() : fork();
        if (child == 0) {
            execve(file, arguments, environ);
            _exit(errno);
        }
    }
    return child;
}

static pthread_barrier_t barrier;

static void *execute(void *together)
{
    if (together)
        pthread_barrier_wait(&barrier);
    execve(file, arguments, environ);
    exit(errno);
}

static void handle(int number)
{
    char *words[] = {file, "handled", NULL};
    (void)number;
    execve(file, words, environ);
}

static void *busy(void *unused)
{
    (void)unused;
    for (;;)
        getppid();
    return NULL;
}

int main(int argc, char **argv)
{
    const char *way = argv[1];
    pthread_t thread;
    if (strstr("exec thread deep rivals handler", way)) {
        file = argv[2];
        arguments = argv + 2;
        signal(SIGUSR1, !strcmp(way, "handler") ? handle : SIG_DFL);
        if (strstr("exec handler", way))
            execute(NULL);
        /* Once one executes, no more can be created: clone(2) EAGAIN. */
        pthread_barrier_init(&barrier, NULL, 8);
        for (int i = 0; !strcmp(way, "rivals") && i < 7; i++)
            pthread_create(&thread, NULL, execute, &barrier);
        for (int i = 0; !strcmp(way, "deep") && i < 10; i++)
            pthread_create(&thread, NULL, busy, NULL);
        pthread_create(&thread, NULL, execute, !strcmp(way, "rivals") ? &barrier : NULL);
        for (;;)
            pause();
    }
    int changed = 0;
    file = argv[3];
    arguments = argv + 3;
    size_t size = argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[3];
    char *copy = malloc(size);
    memcpy(copy, argv[3], size);
    for (int i = atoi(argv[2]); i > 0; i--) {
        int status = 0;
        long pid = start(way);
        if (pid > 0)
            waitpid(pid, &status, 0);
        else
            status = -pid * 1000;
        printf("%d ", status);
        changed |= memcmp(copy, argv[3], size) != 0;
        if (!strcmp(way, "goroutine"))
            changed |= heap_changed();
    }
    printf("%s\n", changed ? "CHANGED" : "intact");
    return 0;
}
