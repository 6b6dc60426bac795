/* Leaves a daemon in a session of its own that outlives it. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        for (int s = 1; s < 65; s++)
            signal(s, SIG_IGN);
        for (;;) {
            int fd = open("/tmp/alive", O_CREAT | O_WRONLY | O_APPEND, 0600);
            write(fd, "x", 1);
            close(fd);
            usleep(1000);
        }
    }
    usleep(50000);
    return 0;
}
