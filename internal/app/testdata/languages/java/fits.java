public class Main {
    public static void main(String[] a) {
        int[][] all = new int[160][];
        for (int i = 0; i < 160; i++) {
            all[i] = new int[1 << 18];
            all[i][7] = i;
        }
        System.out.println(all[7][7] == 7 ? "hello" : "lost");
    }
}
