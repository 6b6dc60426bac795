int main[1 << 28] = {1};
