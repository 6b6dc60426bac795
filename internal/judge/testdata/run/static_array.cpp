#include <cstdio>
static long long a[100000000];
int main(int argc, char **) {
    for (long i = 0; i < 100000000; i++) a[i] = i;
    printf("%lld\n", a[argc]);
}
