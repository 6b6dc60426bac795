#include <iostream>

int main()
{
    // Write the sum of the numbers in the input.
}
