fn main() {
    std::process::exit(7);
}
