use hospes::prelude::*;

#[derive(Deserialize)]
struct City(String);

struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    fn trains(&self, to: City) -> String {
        to.0
    }
}

fn main() {}
