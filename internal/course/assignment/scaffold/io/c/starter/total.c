#include <stdio.h>

int main(void)
{
    /* Write the sum of the numbers in the input. */
    return 0;
}
