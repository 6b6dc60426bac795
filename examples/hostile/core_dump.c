/* Asks for a core file and crashes. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void) {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &all);
    prctl(PR_SET_DUMPABLE, 1);
    chdir("/tmp");
    abort();
}
