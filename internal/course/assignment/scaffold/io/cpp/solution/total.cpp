#include <iostream>

int main()
{
    long long sum = 0, n;
    while (std::cin >> n)
        sum += n;
    std::cout << sum << "\n";
}
