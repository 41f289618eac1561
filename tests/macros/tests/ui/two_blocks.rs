struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    fn pack(&self) -> String {
        String::new()
    }
}

#[hospes::server]
impl Trips {
    #[tool]
    fn unpack(&self) -> String {
        String::new()
    }
}

fn main() {}
