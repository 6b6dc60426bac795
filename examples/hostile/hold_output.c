/* Ends while a child of another session holds its output open. */
#include <unistd.h>

int main(void) {
    if (fork() == 0) {
        setsid();
        for (;;)
            pause();
    }
    write(1, "done\n", 5);
    return 0;
}
