struct Trips;

#[hospes::server]
impl Trips {
    #[resource("trips://{city}/today")]
    fn today(&self, city: String) -> String {
        city
    }

    #[tool]
    fn book(&self, train: String) -> String {
        train
    }

    #[complete]
    fn a(&self, typed: &str) -> Vec<String> {
        vec![typed.to_owned()]
    }

    #[complete(today)]
    fn b(&self, typed: &str) -> Vec<String> {
        vec![typed.to_owned()]
    }

    #[complete(todday.city, today.town, book.train)]
    fn c(&self, typed: &str) -> Vec<String> {
        vec![typed.to_owned()]
    }

    #[complete(today.city)]
    fn d(&self, typed: &str, more: &str) -> Vec<String> {
        vec![typed.to_owned(), more.to_owned()]
    }

    #[complete(today.city)]
    fn e(&self, typed: &str) -> Vec<String> {
        vec![typed.to_owned()]
    }
}

fn main() {}
