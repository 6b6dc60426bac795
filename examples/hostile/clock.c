/* Tries to set the clock. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

int main(void) {
    struct timeval tv = {1, 0};
    struct timespec ts = {1, 0};
    struct timex tx = {.modes = ADJ_OFFSET, .offset = 100000};
    if (settimeofday(&tv, 0) == 0 || clock_settime(CLOCK_REALTIME, &ts) == 0 || adjtimex(&tx) >= 0)
        printf("breach: sets the clock\n");
    printf("refused\n");
    return 0;
}
