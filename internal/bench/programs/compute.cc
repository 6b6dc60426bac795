// Computes for some tenths of a second on a table of as many kibibytes as its
// argument says, and prints how many seconds that took. It measures elapsed
// time itself, so that starting the program does not count, and touches the
// table before, so that getting the memory does not either.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int, char **argv) {
    std::vector<uint32_t> table(std::strtoul(argv[1], nullptr, 10) * 256, 1);
    uint64_t sum = 0, x = 88172645463325252ull;
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 60'000'000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t &cell = table[x % table.size()];
        sum += cell ^= static_cast<uint32_t>(x);
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f %llu\n", took.count(), static_cast<unsigned long long>(sum));
}
