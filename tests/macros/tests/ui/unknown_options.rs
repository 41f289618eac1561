struct Trips;

#[hospes::server(naem = "trips")]
impl Trips {
    #[tool(readonly)]
    fn a(&self) -> String {
        String::new()
    }

    #[tool(colour = "red")]
    fn b(&self) -> String {
        String::new()
    }

    #[tool(destructive = "yes")]
    fn c(&self) -> String {
        String::new()
    }

    #[tool(title)]
    fn d(&self) -> String {
        String::new()
    }

    #[tool(title = "a", title = "b")]
    fn e(&self) -> String {
        String::new()
    }

    #[tool = "f"]
    fn f(&self) -> String {
        String::new()
    }

    #[tool(name = "with spaces")]
    fn g(&self) -> String {
        String::new()
    }

    #[tool(read_only, destructive)]
    fn h(&self) -> String {
        String::new()
    }

    #[tool]
    fn i(&self, #[arg(defualt = 1)] x: u8, #[arg(range = 3)] y: u8) -> u8 {
        x + y
    }
}

fn main() {}
