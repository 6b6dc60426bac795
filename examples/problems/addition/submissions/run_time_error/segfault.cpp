// @EXPECTED_RESULTS@: RE
int main() {
    int *volatile p = nullptr;
    return *p;
}
