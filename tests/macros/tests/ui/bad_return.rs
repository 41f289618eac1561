struct Board(String);

struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    fn trains(&self) -> Board {
        Board(String::new())
    }
}

fn main() {}
