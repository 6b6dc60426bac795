// Asks the assembler for a file of 8 GB, all of it zero.
__asm__(".data\n.zero 8589934592\n");
int main(void) { return 0; }
