/* Tries to make devices and set-user-ID programs, and to load kernel code. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(void) {
    if (mknod("/tmp/memory", S_IFCHR | 0666, makedev(1, 1)) == 0 || mknod("/tmp/disk", S_IFBLK | 0666, makedev(8, 0)) == 0)
        printf("breach: makes a device\n");
    if (open("/dev/mem", O_RDWR) >= 0 || open("/dev/kmem", O_RDWR) >= 0 || open("/dev/kvm", O_RDWR) >= 0)
        printf("breach: opens a device\n");
    if (setuid(0) == 0 || setgid(0) == 0)
        printf("breach: becomes root\n");
    if (syscall(SYS_init_module, "", 0, "") == 0 || syscall(SYS_bpf, 0, 0, 0) == 0)
        printf("breach: loads code\n");
    if (sethostname("x", 1) == 0)
        printf("breach: sets the host name\n");
    sync();
    if (reboot(RB_AUTOBOOT) == 0)
        printf("breach: reboots\n");
    printf("refused\n");
    return 0;
}
