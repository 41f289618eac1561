//! Names that stand for one address when they are looked at and for another when they are dialled.
//!
//! Of the two addresses of this machine one counts as public here, and one as the inside: Linux has all of 127.0.0.0/8.

use super::trust::{NAME, secured};
use super::*;

const PUBLIC: &str = "127.0.0.1";
const INSIDE: &str = "127.0.0.2";

/// Creates a resolver whose answer changes with every lookup; the lookups are counted.
fn flipping(answers: &'static [&'static [&'static str]]) -> (GuardedClient, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let lookup = move |host: String| -> LookupFuture {
        assert_eq!(host, NAME);
        let turn = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let found = answers[turn].iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(found) })
    };
    let egress = EgressPolicy::public().allow_network(PUBLIC.parse().unwrap());
    (GuardedClient(EgressClient::new(egress, CONNECT_TIMEOUT).lookup(Arc::new(lookup))), asked)
}

/// Starts an internal server at the port of the public one, which must not be reached; counts its connections.
async fn inside(port: u16) -> Arc<AtomicUsize> {
    let listener = TcpListener::bind((INSIDE, port)).await.unwrap();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    came
}

/// The name is public when it is first asked for, and the inside from then on: what was looked at is what is dialled, and
/// the next request is looked at again.
///
/// covers: SECP-04
#[tokio::test]
async fn what_was_looked_at_is_what_is_dialled() {
    let (authority, port) = secured().await;
    let came = inside(port).await;
    let (client, asked) = flipping(&[&[PUBLIC], &[INSIDE]]);
    let client = client.ca_files([authority.path().to_owned()]);
    let url = format!("https://{NAME}:{port}/");
    // A second look between the check and the call would find the inside.
    let first = client.fetch(get(&url)).await.unwrap();
    assert_eq!((first.status, asked.load(Ordering::SeqCst)), (StatusCode::OK, 1));
    let forbidden = Err(FetchError::Forbidden("the address is not public"));
    assert_eq!(client.fetch(get(&url)).await.map(|_| ()), forbidden, "no connection is used again either");
    assert_eq!((asked.load(Ordering::SeqCst), came.load(Ordering::SeqCst)), (2, 0));
}

/// One DNS answer names both addresses, and the public one is unreachable. The internal one must not be used as a
/// fallback.
#[tokio::test]
async fn an_address_of_the_inside_is_no_fallback() {
    let listener = TcpListener::bind((PUBLIC, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let came = inside(port).await;
    let url = format!("https://{NAME}:{port}/");
    for answers in [&[&[PUBLIC, INSIDE] as &[_]], &[&[INSIDE, PUBLIC] as &[_]]] {
        let (client, _) = flipping(answers);
        assert_eq!(client.fetch(get(&url)).await.map(|_| ()), Err(FetchError::Unreachable), "{answers:?}");
    }
    assert_eq!(came.load(Ordering::SeqCst), 0);
}
