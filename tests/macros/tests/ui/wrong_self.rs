use hospes::prelude::*;

struct Counter {
    count: u64,
}

#[hospes::server]
impl Counter {
    #[tool]
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    #[tool]
    fn last(self) -> u64 {
        self.count
    }

    #[tool]
    fn boxed(self: Box<Self>) -> u64 {
        self.count
    }
}

fn main() {
    let _ = CallToolResult::text("");
}
