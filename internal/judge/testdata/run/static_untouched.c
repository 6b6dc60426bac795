#include <stdio.h>
static long long a[100000000];
int main(void) {
    a[5] = 7;
    puts(a[5] + a[50000000] == 7 ? "hello" : "lost");
}
