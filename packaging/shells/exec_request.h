/* The shell asks the server in the wrapper's stead; see exec_request.c. */

#ifndef EXEC_REQUEST_H
#define EXEC_REQUEST_H

/* Whether the server behind the socket SERVER lets PATH run as it is. Any failure is a no: the
   wrapper is then to ask anew. Leaves no descriptor open. */
extern int exec_request_is_granted(int server, const char *path, char **argv, char **envp);

#endif
