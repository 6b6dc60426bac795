/* @EXPECTED_RESULTS@: WA */
/* Ends without reading its input: nobody may be upset by that. */
#include <stdio.h>

int main(void) {
    puts("7");
    return 0;
}
