import java.util.Scanner;

public class Total {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        long sum = 0;
        while (in.hasNextLong()) {
            sum += in.nextLong();
        }
        System.out.println(sum);
    }
}
