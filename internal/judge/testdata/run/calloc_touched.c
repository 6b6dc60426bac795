#include <stdlib.h>
int main(void) {
    for (;;) {
        volatile char *p = calloc(1 << 20, 1);
        for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1;
    }
}
