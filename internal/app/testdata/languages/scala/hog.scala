object Main {
  def main(args: Array[String]): Unit = {
    val all = scala.collection.mutable.ArrayBuffer[Array[Byte]]()
    while (true) all += new Array[Byte](1 << 20)
  }
}
