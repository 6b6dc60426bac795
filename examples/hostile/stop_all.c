/* Stops every process it may, and then itself. */
#include <signal.h>
#include <unistd.h>

int main(void) {
    kill(1, SIGSTOP);
    kill(-1, SIGSTOP);
    raise(SIGSTOP);
    pause();
}
