/* A wrapper stands in for every program the shell executes; see exec_wrapper.c. */

#ifndef EXEC_WRAPPER_H
#define EXEC_WRAPPER_H

#define EXEC_WRAPPER_FAILED (-2)

/* Remember the environment's EXEC_WRAPPER. Call first thing in main. */
extern void exec_wrapper_init(void);

/* execve(2) by way of the wrapper; plain execve(2) when there is none. Returns only on failure:
   -1, errno telling why PATH cannot be executed, or EXEC_WRAPPER_FAILED, errno telling why the
   wrapper cannot. After the latter the caller must not execute PATH, nor interpret it. */
extern int exec_wrapper_execve(const char *path, char **argv, char **envp);

/* Whether NAME=value is one of the wrapper's own variables. */
extern int exec_wrapper_is_private(const char *entry);

/* The wrapper's path, for messages; NULL when there is none. */
extern const char *exec_wrapper_path(void);

#endif
