public class Leap {
    public static boolean isLeap(int year) {
        return false; // Is it a leap year?
    }
}
