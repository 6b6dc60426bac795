#include <cstdio>

int main() { std::printf("%f\n", area()); }
