#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    char *p = malloc(160 << 20);
    memset(p, 1, 160 << 20);
    puts(p[5 << 20] == 1 ? "hello" : "lost");
}
