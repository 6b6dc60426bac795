/* The sum does not fit into 32 bits. */
#include <stdio.h>

int main(void) {
    int n;
    unsigned sum = 0;
    long long x;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += (unsigned)x;
    printf("%d\n", (int)sum);
    return 0;
}
