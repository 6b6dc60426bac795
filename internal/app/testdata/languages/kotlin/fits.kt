fun main() {
    val all = Array(160) { i -> IntArray(1 shl 18) { i } }
    println(if (all[7][7] == 7) "hello" else "lost")
}
