/* One request to the server of the exec wrapper, as the wrapper would put it (docs/protocol.md,
   section 2), but for the member that says that a shell asks. A shell is told Run, or nothing: the
   server then closes the connection before it asks or records anything, and the wrapper asks anew.

   This runs in the forked child of a shell, whose handlers may still be set, and under a filter
   that lets no other calls for sockets pass than socketpair, sendmsg and recvmsg. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec_request.h"
#include "exec_wrapper.h"

enum { HEADER_SIZE = 4, MAX_FRAME = 16 * 1024 * 1024 };

/* Whatever else the server says is no. */
static const char granted[] = "{\"action\":\"Run\",\"codex_multitool\":1}";

/* A growing text; without a place to be at it is only measured. */
struct text {
    char *at;
    size_t length;
};

static void
put(struct text *text, const char *bytes, size_t length)
{
    if (text->at)
        memcpy(text->at + text->length, bytes, length);
    text->length += length;
}

static void
put_plain(struct text *text, const char *string)
{
    put(text, string, strlen(string));
}

/* The length of the character that stands for itself in a JSON string; 0 if there is none: a quote,
   a backslash, a control character, the end, or what is not UTF-8 (RFC 8259, section 7; Unicode,
   table 3-7). Reads no further than a NUL. */
static size_t
character(const unsigned char *byte)
{
    unsigned char lowest = *byte == 0xe0 ? 0xa0 : *byte == 0xf0 ? 0x90 : 0x80;
    unsigned char highest = *byte == 0xed ? 0x9f : *byte == 0xf4 ? 0x8f : 0xbf;
    size_t length = *byte < 0xe0 ? 2 : *byte < 0xf0 ? 3 : 4;
    size_t i;

    if (*byte < 0x80)
        return *byte >= ' ' && *byte != '"' && *byte != '\\';
    if (*byte < 0xc2 || *byte > 0xf4 || byte[1] < lowest || byte[1] > highest)
        return 0;
    for (i = 2; i < length; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* A JSON string. A byte that is not UTF-8 becomes U+DC80 to U+DCFF, as in Python's PEP 383. */
static void
put_string(struct text *text, const char *string, size_t size)
{
    const char *end = string + size;
    char escape[sizeof "\\u0000"];

    put_plain(text, "\"");
    while (string < end) {
        const unsigned char *byte = (const unsigned char *)string;
        size_t length = 0, step = 1;

        while (string + length < end && (step = character(byte + length)))
            length += step;
        put(text, string, length);
        string += length;
        if (!step) {
            unsigned point = (unsigned char)*string++;
            snprintf(escape, sizeof escape, "\\u%04x", point < 0x80 ? point : 0xdc00 + point);
            put_plain(text, escape);
        }
    }
    put_plain(text, "\"");
}

/* From the last to the first: readers take the last of two of a name, getenv(3) the first. */
static void
put_environment(struct text *text, char **envp)
{
    char **entry = envp;
    const char *comma = "";

    while (*entry)
        entry++;
    while (entry-- > envp) {
        const char *equals = strchr(*entry, '=');
        if (!equals || exec_wrapper_is_private(*entry))
            continue;
        put_plain(text, comma);
        put_string(text, *entry, (size_t)(equals - *entry));
        put_plain(text, ":");
        put_string(text, equals + 1, strlen(equals + 1));
        comma = ",";
    }
}

static void
put_request(struct text *text, const char *path, char **argv, const char *cwd, char **envp)
{
    const char *comma = "";

    put_plain(text, "{\"file\":");
    put_string(text, path, strlen(path));
    put_plain(text, ",\"argv\":[");
    for (; *argv; argv++, comma = ",") {
        put_plain(text, comma);
        put_string(text, *argv, strlen(*argv));
    }
    put_plain(text, "],\"workdir\":");
    put_string(text, cwd, strlen(cwd));
    put_plain(text, ",\"env\":{");
    put_environment(text, envp);
    put_plain(text, "},\"codex_multitool\":1,\"shell\":true}");
}

static void
put_header(struct text *text, size_t length)
{
    char header[HEADER_SIZE];
    int i;

    for (i = 0; i < HEADER_SIZE; i++)
        header[i] = (char)(length >> 8 * i);
    put(text, header, sizeof header);
}

/* The request as a frame, to be freed; its AT is NULL if it cannot be made. */
static struct text
frame(const char *path, char **argv, char **envp)
{
    struct text measured = {NULL, 0}, text = {NULL, 0};
    char *cwd = getcwd(NULL, 0);

    if (cwd) {
        put_request(&measured, path, argv, cwd, envp);
        if (measured.length <= MAX_FRAME)
            text.at = malloc(HEADER_SIZE + measured.length);
    }
    if (text.at) {
        put_header(&text, measured.length);
        put_request(&text, path, argv, cwd, envp);
    }
    free(cwd);
    return text;
}

/* Announce a stream by handing its other end over: unix(7). */
static int
shake_hands(int server, int theirs)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec data = {(char[]){0}, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1,
        .msg_control = control.bytes, .msg_controllen = sizeof control.bytes,
    };
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    ssize_t sent;

    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof theirs);
    memcpy(CMSG_DATA(rights), &theirs, sizeof theirs);
    do
        sent = sendmsg(server, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
}

/* Send or receive all of it; no control data is taken. */
static int
transfer(int sending, int stream, char *bytes, size_t length)
{
    while (length) {
        struct iovec data = {bytes, length};
        struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
        ssize_t done = sending ? sendmsg(stream, &message, MSG_NOSIGNAL)
                               : recvmsg(stream, &message, 0);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 0;
        bytes += done;
        length -= (size_t)done;
    }
    return 1;
}

static int
is_granted(int stream)
{
    char expected[HEADER_SIZE + sizeof granted - 1], answer[sizeof expected];
    struct text text = {expected, 0};

    put_header(&text, sizeof granted - 1);
    put_plain(&text, granted);
    return transfer(0, stream, answer, sizeof answer)
        && memcmp(answer, expected, sizeof answer) == 0;
}

int
exec_request_is_granted(int server, const char *path, char **argv, char **envp)
{
    struct text request = frame(path, argv, envp);
    int pair[2], announced, result = 0;

    if (request.at && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        /* A closed number may be ours now: to ask oneself is to wait for ever. */
        announced = server != pair[0] && server != pair[1] && shake_hands(server, pair[1]);
        close(pair[1]);
        result = announced && transfer(1, pair[0], request.at, request.length)
            && is_granted(pair[0]);
        close(pair[0]);
    }
    free(request.at);
    return result;
}
