/* Mixes the cells of a table of argv[1] kibibytes, argv[2] times; no argument:
 * nothing at all, which is what a run costs by itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 3) return 0;
    uint64_t size = strtoull(argv[1], NULL, 10) * 256, rounds = strtoull(argv[2], NULL, 10);
    uint32_t *table = malloc(size * sizeof *table);
    if (!table) return 1;
    for (uint64_t i = 0; i < size; i++) table[i] = 1;
    uint64_t sum = 0, x = 88172645463325252ull;
    for (uint64_t i = 0; i < rounds; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        uint32_t *cell = &table[x % size];
        sum += *cell ^= (uint32_t)x;
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
