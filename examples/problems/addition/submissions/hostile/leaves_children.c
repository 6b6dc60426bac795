/* @EXPECTED_RESULTS@: AC */
/* Gives the right answer and ends, but a child goes on computing in a session
   of its own. It must be gone before the next case. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    int n;
    long long sum = 0, x;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    if (fork() == 0) {
        setsid();
        for (volatile int i = 0;; i = 1) {
        }
    }
    printf("%lld\n", sum);
    return 0;
}
