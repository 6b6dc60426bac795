// This file lets seccomp.go declare a function of another package.
