// Ten guesses are not enough for this. It ends when nobody answers any more.
#include <iostream>
#include <string>

int main() {
    std::string word;
    for (int guess = 1; guess <= 1000; guess++) {
        std::cout << guess << std::endl;
        if (!(std::cin >> word) || word == "correct") return 0;
    }
}
