// Doubles itself: the preprocessor needs memory, not time.
#define A0(x) x + x + x + x + x + x + x + x
#define A1(x) A0(A0(A0(x)))
#define A2(x) A1(A1(A1(x)))
int a = A2(A2(1));
int main() {}
