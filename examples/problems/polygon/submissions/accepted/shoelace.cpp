#include <bits/stdc++.h>

int main() {
    int n;
    std::cin >> n;
    std::vector<std::complex<double>> p(n);
    for (auto &q : p) {
        double x, y;
        std::cin >> x >> y;
        q = {x, y};
    }
    double twice = 0;
    for (int i = 0; i < n; i++) twice += (std::conj(p[i] - p[0]) * (p[(i + 1) % n] - p[0])).imag();
    std::cout << std::scientific << std::setprecision(12) << std::abs(twice) / 2 << "\n";  // 6.0e+00 is a number too
}
