/* Ten million writes of one byte. */
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 10000000; i++)
        write(1, "x", 1);
    return 0;
}
