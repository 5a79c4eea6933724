/* A wrapper stands in for every program the shell executes.

   It is started as WRAPPER PATH ARGV0 ARGV1 ..., and executes PATH itself or does not. What only
   a shell can answer (a missing file, a bad interpreter, a script without #!) is found out before
   that, as no shell is left afterwards. Where the server answers shells, the shell asks it first,
   and starts the wrapper unless it says Run. Once a wrapper is configured nothing here executes
   anything else: a failure is reported, never bypassed. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec_request.h"
#include "exec_wrapper.h"

extern char **environ;

enum { WRAPPER, OLD_WRAPPER, SOCKET, SHELL_SOCKET, NAMES };
static const char *const names[NAMES] = {
    "EXEC_WRAPPER", "BASH_EXEC_WRAPPER", "CODEX_ESCALATE_SOCKET", "CODEX_ESCALATE_SHELL_SOCKET"
};

/* With anything behind it: the shell does not ask. */
static const char always[] = "EXEC_WRAPPER_ALWAYS=";

/* NAME=value as the shell was started with it. Commands cannot change these: neither unset nor
   an assignment turns the wrapper off or cuts it from its server. */
static char *inherited[NAMES];
static const char *wrapper;

/* The socket of a server that answers shells, or -1. */
static int server = -1;

/* Linux looks at this much of a file to tell its format (BINPRM_BUF_SIZE). */
enum { HEAD_SIZE = 256 };

/* Linux gives up with ELOOP on more interpreters of interpreters (exec_binprm). */
enum { MAX_INTERPRETERS = 5 };

/* The index in names of the variable that ENTRY sets, or NAMES. */
static int
which_name(const char *entry)
{
    int i;

    for (i = 0; i < NAMES; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(entry, names[i], length) == 0 && entry[length] == '=')
            break;
    }
    return i;
}

int
exec_wrapper_is_private(const char *entry)
{
    return which_name(entry) != NAMES;
}

static const char *
value(const char *entry)
{
    return entry ? strchr(entry, '=') + 1 : "";
}

static const char *
usable_path(const char *entry)
{
    const char *path = value(entry);

    return *path && !isspace((unsigned char)*path) ? path : NULL;
}

/* The socket on which the shell may ask, or -1. It is named twice, as another server's shell
   inherits the variables of this one's. */
static int
usable_socket(void)
{
    const char *number = value(inherited[SHELL_SOCKET]);
    size_t length = strspn(number, "0123456789");

    if (strcmp(number, value(inherited[SOCKET])) != 0 || number[length])
        return -1;
    return length > 0 && length < 7 ? atoi(number) : -1;
}

void
exec_wrapper_init(void)
{
    char **entry;
    int asks = 1;

    for (entry = environ; entry && *entry; entry++) {
        int i = which_name(*entry);
        if (strncmp(*entry, always, sizeof always - 1) == 0 && *value(*entry))
            asks = 0;
        if (i == NAMES || inherited[i])
            continue;
        inherited[i] = strdup(*entry);
        if (!inherited[i]) {
            perror(names[i]);
            _exit(126);
        }
    }
    wrapper = usable_path(inherited[WRAPPER]);
    if (!wrapper)
        wrapper = usable_path(inherited[OLD_WRAPPER]);
    if (asks)
        server = usable_socket();
}

const char *
exec_wrapper_path(void)
{
    return wrapper;
}

/* Whether a binfmt_misc handler may know formats that the kernel does not
   (Documentation/admin-guide/binfmt-misc.rst). */
static int
has_binfmt_misc_handlers(void)
{
    int found = 0;
    DIR *dir = opendir("/proc/sys/fs/binfmt_misc");
    struct dirent *entry;

    if (!dir)
        return 0;
    while (!found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.' && strcmp(entry->d_name, "register") != 0
            && strcmp(entry->d_name, "status") != 0;
    closedir(dir);
    return found;
}

/* Whether a file that starts with these bytes, not #!, is nothing the kernel executes. Text never
   is: every binary format has a NUL byte early on. */
static int
is_unknown_format(const char *head, size_t length)
{
    if (!memchr(head, '\0', length))
        return 1;
#ifdef __linux__
    return memcmp(head, "\177ELF", 4) != 0 && !has_binfmt_misc_handlers();
#else
    return 0;
#endif
}

/* Cut the interpreter's path out of a #! line, as load_script of Linux does; NULL if there is
   none or it may have been truncated. HEAD has HEAD_SIZE bytes and a NUL after them. */
static const char *
interpreter(char *head)
{
    char *path = head + 2 + strspn(head + 2, " \t");
    char *end = path + strcspn(path, " \t\n");

    if (end == path || end == head + HEAD_SIZE)
        return NULL;
    *end = '\0';
    return path;
}

/* The errno with which execve(PATH) would fail, as far as that can be told without trying: trying
   would execute what another process puts there meanwhile. 0: the wrapper's turn. */
static int
refusal(const char *path, int depth)
{
    char head[HEAD_SIZE + 1] = "";
    const char *next;
    struct stat status;
    ssize_t length;
    int fd;

    if (depth > MAX_INTERPRETERS)
        return ELOOP;
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 || stat(path, &status) < 0)
        return errno;
    if (!S_ISREG(status.st_mode))
        return EACCES;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return 0; /* executable but not readable */
    length = read(fd, head, HEAD_SIZE);
    close(fd);
    if (length < 0)
        return 0;
    if (length < 2 || head[0] != '#' || head[1] != '!')
        return is_unknown_format(head, (size_t)length) ? ENOEXEC : 0;
    next = interpreter(head);
    return next ? refusal(next, depth + 1) : ENOEXEC;
}

static size_t
count(char **vector)
{
    size_t n = 0;

    while (vector && vector[n])
        n++;
    return n;
}

/* ENVP with the variables of the wrapper as they were inherited. */
static char **
wrapper_environment(char **envp)
{
    char **result = malloc((count(envp) + NAMES + 1) * sizeof *result);
    char **to = result;
    int i;

    if (!result)
        return NULL;
    for (; envp && *envp; envp++) {
        i = which_name(*envp);
        if (i == NAMES || !inherited[i])
            *to++ = *envp;
    }
    for (i = 0; i < NAMES; i++)
        if (inherited[i])
            *to++ = inherited[i];
    *to = NULL;
    return result;
}

/* Returns as exec_wrapper_execve does. */
static int
execute(const char *path, char **argv, char **args, char **env)
{
    if (server >= 0 && *argv && exec_request_is_granted(server, path, argv, env)) {
        execve(path, argv, env);
        return -1;
    }
    execve(wrapper, args, env);
    return errno == E2BIG ? -1 : EXEC_WRAPPER_FAILED; /* too long is the command, not the wrapper */
}

int
exec_wrapper_execve(const char *path, char **argv, char **envp)
{
    size_t argc = count(argv);
    char **args, **env;
    int result = EXEC_WRAPPER_FAILED, error;

    if (!wrapper)
        return execve(path, argv, envp);
    errno = refusal(path, 0);
    if (errno)
        return -1;

    args = malloc((argc + 3) * sizeof *args);
    env = wrapper_environment(envp);
    if (args && env) {
        args[0] = (char *)wrapper;
        args[1] = (char *)path;
        if (argc)
            memcpy(args + 2, argv, argc * sizeof *args);
        args[argc + 2] = NULL;
        result = execute(path, argv, args, env);
    }
    error = errno;
    free(args);
    free(env);
    errno = error;
    return result;
}
