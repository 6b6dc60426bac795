public class Total {
    public static void main(String[] args) {
        // Write the sum of the numbers in the input.
    }
}
