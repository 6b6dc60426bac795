// The number of blocks does not fit into 32 bits.
#include <iostream>

int main() {
    unsigned n, blocks = 0;
    std::cin >> n;
    for (unsigned i = 1; i <= n; i++) blocks += i;
    std::cout << blocks << "\n";
}
