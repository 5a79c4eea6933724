/* A program that names another one as its loader: elf(5), PT_INTERP. Never gets to run itself. */
void _start(void)
{
    for (;;)
        ;
}
