fn main() {
    let mut n = 0u64;
    loop {
        n = unsafe { std::ptr::read_volatile(&n) } + 1;
    }
}
