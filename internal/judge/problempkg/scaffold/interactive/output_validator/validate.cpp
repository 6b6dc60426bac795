// Called as: validate input answer feedback_dir/. Exit code 42 accepts, 43 rejects.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

static std::string feedback;

[[noreturn]] static void reject(const std::string& why) {
    std::ofstream(feedback + "judgemessage.txt") << why << "\n";
    std::exit(43);
}

int main(int argc, char** argv) {
    if (argc < 4) return 1;
    feedback = argv[3];
    int hidden = 0;
    if (!(std::ifstream(argv[1]) >> hidden)) return 1;
    for (int turn = 1; turn <= 10; turn++) {
        int guess;
        if (!(std::cin >> guess)) reject("turn " + std::to_string(turn) + ": no number");
        if (guess < 1 || guess > 1000) reject("turn " + std::to_string(turn) + ": a guess out of range");
        std::cout << (hidden < guess ? "lower" : hidden > guess ? "higher" : "correct") << std::endl;
        if (hidden != guess) continue;
        std::string more;
        if (std::cin >> more) reject("more output after the number was found");
        return 42;
    }
    reject("not found in ten guesses");
}
