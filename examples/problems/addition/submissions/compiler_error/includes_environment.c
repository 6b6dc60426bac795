/* Tries to read secrets by way of the compiler's messages. There are none. */
#include "/proc/self/environ"
#include "/etc/shadow"

int main(void) { return 0; }
