/* ring PORT: connect to 127.0.0.1:PORT by io_uring(7), without a connect(2). */
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct io_uring_params p = {0};
    int ring = syscall(__NR_io_uring_setup, 4, &p);
    if (argc < 2 || ring < 0) {
        perror("io_uring_setup");
        return 1;
    }
    char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED,
                    ring, IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
                    PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, p.sq_entries * sizeof *entries,
                                        PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct io_uring_cqe *done = (void *)(cq + p.cq_off.cqes);
    int number = -1;
    for (unsigned step = 0; step < 2; step++) {
        struct io_uring_sqe *entry = &entries[step];
        memset(entry, 0, sizeof *entry);
        if (step == 0) {
            entry->opcode = IORING_OP_SOCKET;
            entry->fd = AF_INET;
            entry->off = SOCK_STREAM;
        } else {
            entry->opcode = IORING_OP_CONNECT;
            entry->fd = number;
            entry->addr = (unsigned long)&to;
            entry->off = sizeof to;
        }
        ((unsigned *)(sq + p.sq_off.array))[step] = step;
        *(unsigned *)(sq + p.sq_off.tail) = step + 1;
        syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        number = done[step].res;
        printf("step %u: %d\n", step, number);
    }
    return 0;
}
