/* @EXPECTED_RESULTS@: RE, TLE */
#include <unistd.h>

int main(void) {
    for (;;) fork();
}
