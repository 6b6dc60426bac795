#include <cstdio>
#include <string>

// Standard error has no buffer: each line is a system call, so the lines are
// long, or the time limit would come first.
int main() {
    const std::string line = std::string(4000, 'e') + "\n";
    for (;;) std::fputs(line.c_str(), stderr);
}
