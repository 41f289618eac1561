//! Serves the server of the transport suite over stdio.

#[tokio::main]
async fn main() -> hospes::Result<()> {
    hospes::serve(hospes_testkit::transport::server()).await
}
