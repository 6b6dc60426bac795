/* Writes to and closes every descriptor it could have inherited. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void) {
    int inherited = 0;
    for (int fd = 3; fd < 4096; fd++) {
        if (write(fd, "garbage", 7) > 0)
            inherited++;
        close(fd);
    }
    if (inherited)
        printf("breach: %d inherited descriptors\n", inherited);
    printf("closing\n");
    fflush(stdout);
    close(0);
    close(1);
    close(2);
    usleep(100000);
    return 3;
}
