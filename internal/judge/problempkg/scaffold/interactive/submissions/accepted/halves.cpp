#include <iostream>
#include <string>

int main() {
    int low = 1, high = 1000;
    while (true) {
        int middle = (low + high) / 2;
        std::cout << middle << std::endl;
        std::string word;
        std::cin >> word;
        if (word == "correct") return 0;
        if (word == "lower") high = middle - 1; else low = middle + 1;
    }
}
