fn main() {
    let all: Vec<Vec<u8>> = (0..160).map(|i| vec![i as u8; 1 << 20]).collect();
    println!("{}", if all[7][7] == 7 { "hello" } else { "lost" });
}
