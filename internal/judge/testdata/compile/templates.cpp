// Every instance needs two new ones, of types that nobody has made before.
template <class T, int N> struct A {
    A<A<T, N>, N - 1> a;
    A<T *, N - 1> b;
};
template <class T> struct A<T, 0> {};
A<int, 40> bomb;
int main() {}
