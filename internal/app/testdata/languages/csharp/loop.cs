public class Program {
    public static void Main() {
        while (true) {}
    }
}
