/* Tries to trace and to read every other process. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void) {
    for (pid_t p = 1; p < 300; p++) {
        char buf[16];
        struct iovec here = {buf, sizeof buf}, there = {(void *)0x400000, sizeof buf};
        if (p == getpid())
            continue;
        if (ptrace(PTRACE_ATTACH, p, 0, 0) == 0 || ptrace(PTRACE_SEIZE, p, 0, 0) == 0)
            printf("breach: traces process %d\n", p);
        if (process_vm_readv(p, &here, 1, &there, 1, 0) > 0)
            printf("breach: reads process %d\n", p);
    }
    printf("refused\n");
    return 0;
}
