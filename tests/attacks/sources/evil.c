/* SHARED: whoever loads it writes $OUT/file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void)
{
    char path[4096];
    const char *out = getenv("OUT");
    unsetenv("LD_PRELOAD");
    snprintf(path, sizeof path, "%s/file", out ? out : "/nonexistent");
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return;
    }
    fputs("written\n", file);
    fclose(file);
}

unsigned la_version(unsigned version)
{
    return version;
}
