/* Exits 4 if FORBIDDEN or if its first argument begins with f, else 3. Static, without a library:
 * it starts in the shortest time there is.
 */
#ifndef FORBIDDEN
#define FORBIDDEN 0
#endif

#if defined(__x86_64__)
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
static void leave(long status)
{
    __asm__ volatile("syscall" : : "a"(231L), "D"(status) : "rcx", "r11", "memory");
}
#else
__asm__(".globl _start\n_start: mov x0, sp\n bl begin\n");
static void leave(long status)
{
    register long x8 __asm__("x8") = 94;
    register long x0 __asm__("x0") = status;
    __asm__ volatile("svc #0" : : "r"(x8), "r"(x0) : "memory");
}
#endif

void begin(long *stack)
{
    char **argv = (char **)(stack + 1);
    leave(FORBIDDEN || (stack[0] > 1 && argv[1][0] == 'f') ? 4 : 3);
    for (;;)
        ;
}
