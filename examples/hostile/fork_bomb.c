/* Forks without end, and again in every child. */
#include <unistd.h>

int main(void) {
    for (;;)
        fork();
}
