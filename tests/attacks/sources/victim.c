/* A process outside the sandbox: says where its memory is, then sleeps. Holds a file open. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static char memory[64] = "intact";

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, 9);
    if (argc > 1 && open(argv[1], O_RDWR | O_CREAT, 0600) < 0)
        return 1;
    printf("%p\n", (void *)memory);
    fflush(stdout);
    for (;;)
        pause();
}
