/* Half of a UTF-8 character: bytes that are no text must not upset anybody. */
#include <stdio.h>

int main(void) {
    putchar(0xE2);
    return 0;
}
