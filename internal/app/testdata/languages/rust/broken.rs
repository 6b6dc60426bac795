fn main() {
    let x: i32 = "one";
}
