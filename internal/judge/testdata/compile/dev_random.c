#include "/dev/random"
