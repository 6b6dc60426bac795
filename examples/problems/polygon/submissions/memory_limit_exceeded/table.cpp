// A table with the triangle of every pair of corners.
#include <bits/stdc++.h>

int main() {
    int n;
    std::cin >> n;
    std::vector<double> x(n), y(n);
    for (int i = 0; i < n; i++) std::cin >> x[i] >> y[i];
    std::vector<std::vector<double>> table;
    for (int i = 0; i < n; i++) {
        table.emplace_back(n);
        for (int j = 0; j < n; j++) table[i][j] = (x[i] - x[0]) * (y[j] - y[0]) - (x[j] - x[0]) * (y[i] - y[0]);
    }
    double twice = 0;
    for (int i = 0; i < n; i++) twice += table[i][(i + 1) % n];
    std::printf("%.9f\n", std::abs(twice) / 2);
}
