struct Trips;

#[hospes::server]
impl Trips {
    #[tool]
    fn trains(&self) -> String {
        String::new()
    }

    #[tool(name = "trains")]
    fn railways(&self) -> String {
        String::new()
    }

    #[resource("trips://today")]
    fn today(&self) -> String {
        String::new()
    }

    #[resource("trips://today")]
    fn now(&self) -> String {
        String::new()
    }

    #[prompt]
    fn pack(&self) -> String {
        String::new()
    }

    #[prompt(name = "pack")]
    fn unpack(&self) -> String {
        String::new()
    }

    #[tool]
    fn twice(&self, day: u8, #[arg(name = "day")] other: u8) -> u8 {
        day + other
    }
}

fn main() {}
