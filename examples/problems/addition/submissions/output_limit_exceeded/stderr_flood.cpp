#include <cstdio>

int main() {
    for (;;) std::fputs("error error error error error error\n", stderr);
}
