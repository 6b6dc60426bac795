while (1) {}
