// Not a number is not near to any number.
#include <cmath>
#include <cstdio>

int main() { std::printf("%f\n", std::nan("")); }
