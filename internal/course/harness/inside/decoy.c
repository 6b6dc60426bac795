
/* Stands behind a submission's source whose functions were renamed: each runs,
   and what it gives back is replaced. */
#include <string.h>
#include <unistd.h>

__attribute__((used)) static char assay_junk[512] __attribute__((aligned(256))) =
    "################################################################"
    "################################################################";
__attribute__((used)) static void *assay_frames[65536];
__attribute__((used)) static void **assay_frame = assay_frames;
__attribute__((used)) static long long assay_number = ASSAY_NUMBER;

#ifdef ASSAY_MAIN
/* A program answers by what it writes. */
static void assay_mute(int number) {
  int ends[2], real = dup(number);
  if (real < 0 || pipe(ends) != 0) _exit(70);
  if (fork() == 0) {
    char data[4096];
    long n, i;
    close(ends[1]);
    while ((n = read(ends[0], data, sizeof data)) > 0) {
      for (i = 0; i < n; i++)
        if (!strchr(" \t\r\n", data[i]) || data[i] == 0) data[i] = '#';
      if (write(real, data, (unsigned long)n) < 0) break;
    }
    _exit(0);
  }
  close(ends[0]);
  close(real);
  dup2(ends[1], number);
  close(ends[1]);
}

#undef main
int main(int argc, char **argv, char **envp) {
  assay_mute(1);
  assay_mute(2);
  return ((int (*)(int, char **, char **))assay_real_main)(argc, argv, envp);
}
#endif

#ifndef __x86_64__
#error only known for x86-64
#endif
__asm__(
    ".text\n"
    "assay_back:\n"
    "  subq $8, assay_frame(%rip)\n"
    "  movq assay_frame(%rip), %r10\n"
    "  leaq assay_junk+" ASSAY_OFFSET "(%rip), %rax\n"
    "  movsd assay_number(%rip), %xmm0\n"
    ASSAY_ZERO
    "  jmp *(%r10)\n");
