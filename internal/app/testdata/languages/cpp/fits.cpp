#include <cstdio>
#include <vector>
int main() {
    std::vector<std::vector<char>> all;
    for (int i = 0; i < 160; i++) all.emplace_back(1 << 20, 1);
    puts(all[7][7] == 1 ? "hello" : "lost");
}
