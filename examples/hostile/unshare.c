/* Tries namespaces of its own, to become root there, and fills a filesystem
 * that it mounted where nobody looks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static char chunk[1 << 20];

int main(void) {
    if (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWPID) == 0)
        printf("breach: namespaces without a user namespace\n");
    fflush(stdout);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || mount("none", "/tmp", "tmpfs", 0, "size=4g") != 0) {
        printf("refused\n");
        return 0;
    }
    memset(chunk, 1, sizeof chunk);
    int fd = open("/tmp/fill", O_CREAT | O_WRONLY, 0600);
    while (write(fd, chunk, sizeof chunk) > 0)
        ;
    pause();
}
