/* load PROGRAM WORD...: run an ELF program without any exec, by mapping it and its loader into
 * this process and jumping there, as exec_binprm does in the kernel.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

struct image {
    Elf64_Ehdr header;
    uintptr_t base;
    uintptr_t table;
    char loader[256];
};

static void map(const char *path, struct image *image)
{
    int file = open(path, O_RDONLY);
    Elf64_Phdr parts[64];
    if (file < 0 || read(file, &image->header, sizeof image->header) < 0)
        exit(2);
    pread(file, parts, sizeof parts, image->header.e_phoff);
    int count = image->header.e_phnum;
    uintptr_t end = 0;
    for (int i = 0; i < count; i++)
        if (parts[i].p_type == PT_LOAD)
            end = parts[i].p_vaddr + parts[i].p_memsz;
    char *base = mmap(NULL, end + PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    image->base = (uintptr_t)base;
    image->table = image->base + image->header.e_phoff;
    for (int i = 0; i < count; i++) {
        if (parts[i].p_type == PT_LOAD)
            pread(file, base + parts[i].p_vaddr, parts[i].p_filesz, parts[i].p_offset);
        if (parts[i].p_type == PT_INTERP)
            pread(file, image->loader, sizeof image->loader - 1, parts[i].p_offset);
    }
    close(file);
}

int main(int argc, char **argv, char **envp)
{
    static struct image program, loader;
    map(argv[1], &program);
    map(program.loader, &loader);
    uintptr_t auxiliary[][2] = {
        {AT_PHDR, program.table},
        {AT_PHENT, sizeof(Elf64_Phdr)},
        {AT_PHNUM, program.header.e_phnum},
        {AT_BASE, loader.base},
        {AT_ENTRY, program.base + program.header.e_entry},
        {AT_PAGESZ, PAGE},
        {AT_RANDOM, getauxval(AT_RANDOM)},
        {AT_HWCAP, getauxval(AT_HWCAP)},
        {AT_HWCAP2, getauxval(AT_HWCAP2)},
        {AT_CLKTCK, 100},
        {AT_SECURE, 0},
        {AT_EXECFN, (uintptr_t)argv[1]},
        {AT_NULL, 0},
    };
    size_t variables = 0;
    while (envp[variables])
        variables++;
    size_t words = 1 + (argc - 1) + 1 + variables + 1 + sizeof auxiliary / sizeof(uintptr_t);
    words += words & 1;
    char *memory = mmap(NULL, 1 << 23, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t *stack = (uintptr_t *)(memory + (1 << 23) - 4096) - words;
    uintptr_t *at = stack;
    *at++ = argc - 1;
    memcpy(at, argv + 1, argc * sizeof *argv);
    at += argc;
    memcpy(at, envp, (variables + 1) * sizeof *envp);
    at += variables + 1;
    memcpy(at, auxiliary, sizeof auxiliary);
    uintptr_t entry = loader.base + loader.header.e_entry;
#if defined(__x86_64__)
    __asm__ volatile("mov %0, %%rsp; xor %%edx, %%edx; jmp *%1" : : "r"(stack), "r"(entry) : "rdx");
#elif defined(__aarch64__)
    __asm__ volatile("mov sp, %0; mov x0, 0; br %1" : : "r"(stack), "r"(entry) : "x0");
#endif
    return 3;
}
