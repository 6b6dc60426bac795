using System.Collections.Generic;

public class Program {
    public static void Main() {
        var all = new List<int[]>();
        for (int i = 0; i < 160; i++) {
            var b = new int[1 << 18];
            for (int k = 0; k < b.Length; k++) b[k] = i;
            all.Add(b);
        }
        System.Console.WriteLine(all[7][7] == 7 ? "hello" : "lost");
    }
}
