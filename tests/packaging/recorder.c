/* An exec wrapper for tests: appends what it was started with to a file named after itself, then
   executes the program. A record is a count and as many words (argv), a count and as many words
   (the environment); every item ends in a NUL byte. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static size_t add_vector(char *to, char **vector)
{
    size_t count = 0, length;

    while (vector[count])
        count++;
    length = to ? (size_t)sprintf(to, "%zu", count) + 1 : 24;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(vector[i]) + 1;
        if (to)
            memcpy(to + length, vector[i], size);
        length += size;
    }
    return length;
}

int main(int argc, char **argv)
{
    char log[4096];
    char *record = malloc(add_vector(NULL, argv) + add_vector(NULL, environ));
    size_t length;
    int fd;

    snprintf(log, sizeof log, "%s.log", argv[0]);
    fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (argc < 3 || fd < 0 || !record) {
        fprintf(stderr, "recorder: %s: %s\n", log, strerror(errno));
        return 125;
    }
    length = add_vector(record, argv);
    length += add_vector(record + length, environ);
    if (write(fd, record, length) != (ssize_t)length)
        return 125;
    execv(argv[1], argv + 2);
    fprintf(stderr, "recorder: %s: %s\n", argv[1], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
