fun main() {
    val x: Int = "one"
}
