struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    #[prompt]
    fn pack(&self) -> String {
        String::new()
    }
}

fn main() {}
