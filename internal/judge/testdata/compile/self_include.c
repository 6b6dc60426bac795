// Each level includes the file twice: 2^100 inclusions that end nowhere near
// the compiler's own limit of depth.
#if __INCLUDE_LEVEL__ < 100
#include __FILE__
#include __FILE__
#endif
int main(void) { return 0; }
