/* Opens files until it is refused. */
#include <fcntl.h>
#include <stdio.h>

int main(void) {
    int n = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        n++;
    if (n > 5000)
        printf("breach: %d open files\n", n);
    printf("refused\n");
    return 0;
}
