public class Main {
    public static void main(String[] a) {
        System.exit(7);
    }
}
