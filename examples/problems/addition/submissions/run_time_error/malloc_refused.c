/* @EXPECTED_RESULTS@: RE */
/* Far more memory than there is: malloc says no, and the program does not look. */
#include <stdlib.h>

int main(void) {
    volatile size_t size = (size_t)1 << 60;
    int *volatile p = malloc(size);
    p[0] = 1;
    return p[0];
}
