public class Main {
    public static void main(String[] a) {
        byte[] b = new byte[1 << 30];
        System.out.println(b.length);
    }
}
