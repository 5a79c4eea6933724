/* foreign i386|x32: execve(/bin/true) by another ABI's system call; tells if it is still alive. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    long result = -1;
    (void)argc;
#if defined(__x86_64__)
    /* int 0x80 takes 32-bit pointers. */
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
                     -1, 0);
    unsigned *vector = (unsigned *)(low + 64);
    unsigned long *long_vector = (unsigned long *)(low + 128);
    strcpy(low, "/bin/true");
    vector[0] = (unsigned)(unsigned long)low;
    long_vector[0] = (unsigned long)low;
    puts("alive");
    fflush(stdout);
    if (!strcmp(argv[1], "i386"))
        __asm__ volatile("int $0x80" : "=a"(result) : "0"(11L), "b"(low), "c"(vector), "d"(0L)
                         : "memory");
    else
        __asm__ volatile("syscall" : "=a"(result)
                         : "0"(59L | 0x40000000), "D"(low), "S"(long_vector), "d"(0L)
                         : "rcx", "r11", "memory");
#endif
    printf("returned %ld\n", result);
    return 0;
}
