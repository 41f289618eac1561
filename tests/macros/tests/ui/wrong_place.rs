struct Trips;

trait Travel {
    fn go(&self) -> String;
}

#[hospes::server]
impl Travel for Trips {
    fn go(&self) -> String {
        String::new()
    }
}

#[hospes::server]
struct Other;

fn main() {}
