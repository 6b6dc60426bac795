#include <math.h>
#include <stdio.h>

static double x[10000], y[10000];

int main(void) {
    int n;
    double twice = 0;
    if (scanf("%d", &n) != 1) return 1;
    for (int i = 0; i < n; i++)
        if (scanf("%lf %lf", &x[i], &y[i]) != 2) return 1;
    for (int i = 0; i < n; i++) {
        int j = (i + 1) % n;
        twice += (x[i] - x[0]) * (y[j] - y[0]) - (x[j] - x[0]) * (y[i] - y[0]);
    }
    printf("%.9f\n", fabs(twice) / 2);
    return 0;
}
