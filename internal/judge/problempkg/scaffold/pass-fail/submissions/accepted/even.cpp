#include <iostream>

int main() {
    int n, even = 0;
    std::cin >> n;
    for (long long x; std::cin >> x;) even += x % 2 == 0;
    std::cout << even << "\n";
}
