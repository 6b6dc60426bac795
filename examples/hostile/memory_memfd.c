/* Fills memory through a file without a name. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char chunk[1 << 20];

int main(void) {
    int fd = memfd_create("fill", 0);
    memset(chunk, 1, sizeof chunk);
    while (write(fd, chunk, sizeof chunk) > 0)
        ;
    pause();
}
