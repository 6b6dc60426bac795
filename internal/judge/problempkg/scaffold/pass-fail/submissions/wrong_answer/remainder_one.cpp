// The remainder of a negative number is -1, not 1.
#include <iostream>

int main() {
    int n, even = 0;
    std::cin >> n;
    for (long long x; std::cin >> x;) even += x % 2 != 1;
    std::cout << even << "\n";
}
