/* The right number, but bytes of value zero stick to it. */
#include <stdio.h>

int main(void) {
    int n;
    long long sum = 0, x;
    if (scanf("%d", &n) != 1) return 1;
    while (n-- > 0 && scanf("%lld", &x) == 1) sum += x;
    printf("%lld%c%c\n", sum, 0, 0);
    return 0;
}
