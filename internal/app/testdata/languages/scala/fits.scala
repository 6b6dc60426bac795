object Main {
  def main(args: Array[String]): Unit = {
    val all = Array.tabulate(160)(i => Array.fill(1 << 18)(i))
    println(if (all(7)(7) == 7) "hello" else "lost")
  }
}
