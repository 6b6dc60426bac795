/* Tries to mount, to unmount and to change its root. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    if (mount("none", "/tmp", "tmpfs", 0, 0) == 0 || mount("none", "/tmp", "proc", 0, 0) == 0 ||
        mount("/", "/tmp", 0, MS_BIND, 0) == 0 || mount(0, "/", 0, MS_REMOUNT, 0) == 0)
        printf("breach: mounts\n");
    if (umount2("/proc", MNT_DETACH) == 0 || umount2("/tmp", MNT_DETACH) == 0)
        printf("breach: unmounts\n");
    if (chroot("/tmp") == 0 || syscall(SYS_pivot_root, "/tmp", "/tmp") == 0)
        printf("breach: changes its root\n");
    printf("refused\n");
    return 0;
}
