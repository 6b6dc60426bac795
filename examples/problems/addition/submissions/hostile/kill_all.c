/* @EXPECTED_RESULTS@: RE, TLE */
/* Kills whatever it can reach, then waits. */
#include <signal.h>
#include <unistd.h>

int main(void) {
    kill(-1, SIGKILL);
    kill(getppid(), SIGKILL);
    kill(0, SIGSTOP);
    for (;;) pause();
}
