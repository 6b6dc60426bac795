/* float has too few digits for a small field far away. */
#include <math.h>
#include <stdio.h>

static float x[10000], y[10000];

int main(void) {
    int n;
    float twice = 0;
    if (scanf("%d", &n) != 1) return 1;
    for (int i = 0; i < n; i++)
        if (scanf("%f %f", &x[i], &y[i]) != 2) return 1;
    for (int i = 0; i < n; i++) {
        int j = (i + 1) % n;
        twice += x[i] * y[j] - x[j] * y[i];
    }
    printf("%f\n", fabsf(twice) / 2);
    return 0;
}
