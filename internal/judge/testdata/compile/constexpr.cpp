constexpr unsigned long count() {
    unsigned long n = 0;
    for (unsigned long i = 0; i < 1UL << 60; i++) n += i;
    return n;
}
static_assert(count() != 0);
int main() {}
