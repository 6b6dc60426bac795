/* Tries to replace its own program file, for the runs after it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    (void)argc;
    path[n > 0 ? n : 0] = 0;
    chmod(path, 0777);
    if (open(path, O_WRONLY | O_TRUNC) >= 0 || open(argv[0], O_RDWR) >= 0 || open("/proc/self/exe", O_RDWR) >= 0)
        printf("breach: opens its program for writing\n");
    if (unlink(path) == 0 || rename("/tmp", path) == 0)
        printf("breach: removes its program\n");
    printf("refused\n");
    return 0;
}
