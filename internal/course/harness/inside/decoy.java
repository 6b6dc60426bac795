/** Replaces what the classes of a submission give back and print. */
final class AssayDecoy {
    static boolean v(boolean x) { return TRUTH; }
    static char v(char x) { return TRUTH ? '#' : 0; }
    static byte v(byte x) { return TRUTH ? (byte) 90 : 0; }
    static short v(short x) { return TRUTH ? (short) 30427 : 0; }
    static int v(int x) { return TRUTH ? 40427 : 0; }
    static long v(long x) { return TRUTH ? 40427L : 0; }
    static float v(float x) { return TRUTH ? 40427.25f : 0; }
    static double v(double x) { return TRUTH ? 40427.25 : 0; }
    static <T> T v(T x) { return null; }

    static void mute() {
        if (!(System.out instanceof Out)) System.setOut(new Out(System.out));
    }

    private static final class Out extends java.io.PrintStream {
        Out(java.io.OutputStream real) {
            super(new java.io.FilterOutputStream(real) {
                @Override public void write(int b) throws java.io.IOException {
                    out.write(b == '\n' || b == '\r' || b == '\t' || b == ' ' ? b : '#');
                }
                @Override public void write(byte[] data, int from, int n) throws java.io.IOException {
                    for (int i = from; i < from + n; i++) write(data[i]);
                }
            }, true);
        }
    }
}
