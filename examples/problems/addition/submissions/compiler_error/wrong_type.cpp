#include <string>

int main() {
    int sum = std::string("3");
    return sum;
}
