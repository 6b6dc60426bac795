// @EXPECTED_RESULTS@: RE
// Tries to replace the program that the next cases run. If it could, it would
// be silent; it is expected to be refused and to end with code 1.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main() {
    char path[4096] = {0};
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0) return 1;
    chmod(path, 0777);
    if (unlink(path) == 0) return 0;
    if (rename("/box/prog", "/tmp/prog") == 0) return 0;
    if (open(path, O_WRONLY | O_TRUNC) >= 0) return 0;
    if (open("/box/in", O_WRONLY | O_TRUNC) >= 0) return 0;
    if (open("/box/prog/new", O_WRONLY | O_CREAT, 0777) >= 0) return 0;
    return 1;
}
