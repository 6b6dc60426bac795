// The number of blocks does not fit into 32 bits.
#include <iostream>

int main() {
    unsigned n;
    std::cin >> n;
    std::cout << n * (n + 1) / 2 << "\n";
}
