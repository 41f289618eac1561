//! Functions that cannot be handlers, by hand.

use hospes::server::{Args, Completes, Server, Tool};

struct Unread {
    _a: u8,
}

fn main() {
    // Not async.
    let _ = Server::new("x", "1").tool("sync", |Args(()): Args<()>| 3);
    // A parameter that a call does not have.
    let _ = Server::new("x", "1").tool("plain", |a: i64| async move { a });
    // A type without `Deserialize` and `JsonSchema`.
    let _ = Server::new("x", "1").tool("unread", |_: Args<Unread>| async {});
    // A result that is none.
    let _ = Server::new("x", "1").tool(Tool::new("result"), || async { Unread { _a: 1 } });
    let _ = Server::new("x", "1").prompt("messages", || async { 3 });
    let _ = Server::new("x", "1").resource("x://contents", || async { 3 });
    let _ = Server::new("x", "1").complete(Completes::prompt("a", "b"), || async { 3 });
    // No server at all.
    let _ = Server::new("x", "1").add(3);
}
