// Reads how many rounds to compute, computes them and prints what came out.
#include <cstdint>
#include <cstdio>

int main() {
    unsigned long long rounds, x = 88172645463325252ull;
    if (std::scanf("%llu", &rounds) != 1) return 1;
    for (unsigned long long i = 0; i < rounds; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::printf("%llu\n", x);
    return 0;
}
