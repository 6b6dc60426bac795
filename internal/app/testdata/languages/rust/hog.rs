fn main() {
    let mut all = Vec::new();
    loop {
        all.push(vec![1u8; 1 << 20]);
        if all.len() == usize::MAX {
            println!("{}", all[0][0]);
        }
    }
}
