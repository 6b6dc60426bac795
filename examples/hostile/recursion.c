/* Recurses without end. */
#include <string.h>

static int deeper(int n) {
    volatile char frame[4096];
    memset((char *)frame, n, sizeof frame);
    return deeper(n + 1) + frame[n % 4096];
}

int main(void) { return deeper(0); }
