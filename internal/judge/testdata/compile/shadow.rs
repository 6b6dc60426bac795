const S: &str = include_str!("/etc/shadow");

fn main() {
    print!("{}", S);
}
