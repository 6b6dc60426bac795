#include <stdlib.h>
int main(void) {
    volatile char *p = malloc(1UL << 40);
    p[0] = 1;
}
