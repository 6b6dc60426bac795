// It waits for an answer to a guess that was never made.
#include <iostream>
#include <string>

int main() {
    std::string word;
    while (std::cin >> word) {
    }
}
