#include <iostream>

int main() {
    long long n, x, sum = 0;
    std::cin >> n;
    while (std::cin >> x) sum += x;
    std::cout << sum;  // no final line end: allowed
}
