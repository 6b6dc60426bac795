static long long a[100000000];

int main(void) {
    for (long i = 0; i < 100000000; i++) a[i] = i;
    return (int)a[12345];
}
