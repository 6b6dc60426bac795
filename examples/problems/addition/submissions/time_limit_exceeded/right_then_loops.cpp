// The right answer is out, but the program never ends.
#include <iostream>

int main() {
    long long n, x, sum = 0;
    std::cin >> n;
    while (std::cin >> x) sum += x;
    std::cout << sum << std::endl;
    for (volatile int i = 0;; i = 1) {
    }
}
