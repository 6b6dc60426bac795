/* Writes without end. */
#include <string.h>
#include <unistd.h>

int main(void) {
    char line[4096];
    memset(line, 'x', sizeof line);
    for (;;)
        write(1, line, sizeof line);
}
