using System.Collections.Generic;

public class Program {
    public static void Main() {
        var all = new List<byte[]>();
        while (true) {
            var b = new byte[1 << 20];
            for (int i = 0; i < b.Length; i++) b[i] = 1;
            all.Add(b);
        }
    }
}
