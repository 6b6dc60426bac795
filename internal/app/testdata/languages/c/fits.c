#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    volatile char *p = malloc(160 << 20);
    for (long i = 0; i < 160 << 20; i += 512) p[i] = 1;
    puts(p[5 << 20] == 1 ? "hello" : "lost");
}
