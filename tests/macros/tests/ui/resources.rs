struct Trips;

#[hospes::server]
impl Trips {
    #[resource]
    fn a(&self) -> String {
        String::new()
    }

    #[resource(mime = "text/plain")]
    fn b(&self) -> String {
        String::new()
    }

    #[resource("trips://{city")]
    fn c(&self, city: String) -> String {
        city
    }

    #[resource("trips://{city}")]
    fn d(&self, town: String) -> String {
        town
    }

    #[resource("trips://all")]
    fn e(&self, city: String) -> String {
        city
    }

    #[resource("all")]
    fn f(&self) -> String {
        String::new()
    }
}

fn main() {}
