//! Sites that lead inside, never end, or are not what they say.

use super::*;

/// Somebody on the inside; how many came.
async fn inside() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((INSIDE, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&page("200 OK\r\ncontent-type: text/plain", "the key")).await;
        }
    });
    (port, came)
}

async fn why_not(server: &Server, url: &str) -> String {
    let why = refusal(server, "fetch", json!({ "url": url })).await;
    assert!(!why.contains("the key"), "{why}");
    why
}

/// covers: SECP-04 SECP-05
#[tokio::test]
async fn the_inside_is_not_reached() {
    let (port, came) = inside().await;
    let site = Site::open(move |path, _| match path.strip_prefix("/to/") {
        Some(host) => page(&format!("302 Found\r\nlocation: http://{host}:{port}/"), ""),
        None => missing(),
    })
    .await;
    let server = server();
    for host in [
        "127.0.0.1",
        "localhost",
        "inside.example",
        "x.localhost",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
    ] {
        for url in [format!("http://{host}:{port}/"), site.url(&format!("/to/{host}"))] {
            let why = why_not(&server, &url).await;
            assert!(why.contains("the request is not allowed"), "{url}: {why}");
        }
    }
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "https://[fd00::1]/",
        "http://192.168.1.1/",
    ] {
        assert!(why_not(&server, url).await.contains("the address is not public"), "{url}");
    }
    // Nor by way of what a site asks of robots, nor by the prompt.
    let sly = Site::open(move |_, _| {
        page(&format!("301 Moved\r\nlocation: http://inside.example:{port}/robots.txt"), "")
    })
    .await;
    assert!(why_not(&server, &sly.url("/")).await.contains("the request is not allowed"));
    let params = json!({ "name": "fetch", "arguments": { "url": format!("http://inside.example:{port}/") } });
    let prompt = result(&server, Method::PromptsGet, params).await.to_string();
    assert!(prompt.contains("the request is not allowed") && !prompt.contains("the key"), "{prompt}");
    assert_eq!(came.load(Ordering::SeqCst), 0);
    // It would have been there.
    let open = fetch(config().allow_private()).unwrap();
    assert!(
        text(&open, "fetch", json!({ "url": format!("http://inside.example:{port}/") }))
            .await
            .contains("the key")
    );
}

/// A name that is public when it is first looked up, and the inside from then on.
///
/// covers: SECP-04
#[tokio::test]
async fn a_name_that_changes_its_mind_leads_nowhere() {
    let (port, came) = inside().await;
    // The public one answers at the same port.
    let listener = TcpListener::bind((PUBLIC, port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&page("200 OK\r\ncontent-type: text/plain", "public")).await;
        }
    });
    for flips_after in 1..4 {
        let asked = AtomicUsize::new(0);
        let lookup = move |_: String| -> LookupFuture {
            let address = if asked.fetch_add(1, Ordering::SeqCst) < flips_after { PUBLIC } else { INSIDE };
            Box::pin(async move { Ok(vec![SocketAddr::new(address.parse().unwrap(), 0)]) })
        };
        let server = fetch(FetchConfig { lookup: Arc::new(lookup), ..config() }).unwrap();
        let url = format!("http://site.example:{port}/");
        for _ in 0..4 {
            let said = call(&server, "fetch", json!({ "url": url })).await.to_string();
            assert!(said.contains("public") && !said.contains("the key"), "{said}");
        }
    }
    assert_eq!(came.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn who_is_sent_round_in_circles_stops() {
    let site = Site::open(|path, _| {
        if path == "/robots.txt" { missing() } else { page(&format!("302 Found\r\nlocation: {path}x"), "") }
    })
    .await;
    let why = why_not(&server(), &site.url("/")).await;
    assert!(why.contains("more than 5 redirects"), "{why}");
    assert_eq!(site.paths().len(), 7);
    let odd = Site::open(|path, _| {
        if path == "/robots.txt" { missing() } else { page("302 Found\r\nlocation: http://[", "") }
    })
    .await;
    assert!(why_not(&server(), &odd.url("/")).await.contains("the redirect target is not a valid URL"));
}

fn gzip(byte: u8, times: usize) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let chunk = vec![byte; 1 << 16];
    for _ in 0..times {
        packer.write_all(&chunk).unwrap();
    }
    packer.finish().unwrap()
}

#[tokio::test]
async fn what_is_packed_is_unpacked_and_no_more_than_fits() {
    let (bomb, good) = (gzip(b'a', 3200), gzip(b'b', 1));
    assert!(bomb.len() < 300_000, "200 MiB in {}", bomb.len());
    let site = Site::open(move |path, _| {
        let packed = "200 OK\r\ncontent-type: text/plain\r\ncontent-encoding:";
        match path {
            "/bomb" => page(&format!("{packed} gzip"), &bomb),
            "/good" => page(&format!("{packed} gzip"), &good),
            "/half" => page(&format!("{packed} gzip"), &good[..good.len() / 2]),
            "/brotli" => page(&format!("{packed} br"), "x"),
            "/twice" => page(&format!("{packed} gzip, gzip"), &good),
            _ => missing(),
        }
    })
    .await;
    let server = fetch(config().max_bytes(1 << 20)).unwrap();
    assert!(text(&server, "fetch", json!({ "url": site.url("/good") })).await.contains("bbbb"));
    for (path, wanted) in [
        ("/bomb", "longer than 1048576 bytes"),
        ("/half", "is invalid"),
        ("/brotli", "unexpected content encoding: br"),
        ("/twice", "unexpected content encoding: gzip, gzip"),
    ] {
        let why = why_not(&server, &site.url(path)).await;
        assert!(why.contains(wanted), "{path}: {why}");
    }
}

/// Bodies without end, heads without end, and robots.txt without end, of which the beginning counts.
#[tokio::test]
async fn what_never_ends_is_cut_off() {
    let site = Site::serve(PUBLIC, |mut stream, path, _| async move {
        let (head, more): (&str, &[u8]) = match path.as_str() {
            "/body" => ("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", b"more and more "),
            // Long enough that a slow system reads the limit in time.
            "/chunks" => (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
                b"28\r\n0123456789012345678901234567890123456789\r\n",
            ),
            "/head" => ("HTTP/1.1 200 OK\r\n", b"x-more: and more\r\n"),
            "/line" => ("HTTP/1.1 200 OK\r\nx-more: ", b"and more "),
            _ => ("HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /no\n", b"# and more\n"),
        };
        let _ = stream.write_all(head.as_bytes()).await;
        let more = more.repeat(1000);
        while stream.write_all(&more).await.is_ok() {}
    })
    .await;
    let server = fetch(config().max_bytes(1 << 20)).unwrap();
    for (path, wanted) in [
        ("/body", "longer than 1048576 bytes"),
        ("/chunks", "longer than 1048576 bytes"),
        ("/head", "could not be read"),
        ("/line", "could not be read"),
        ("/no", "disallows it for programs"),
    ] {
        let why = why_not(&server, &site.url(path)).await;
        assert!(why.contains(wanted), "{path}: {why}");
    }
}

#[tokio::test]
async fn what_trickles_is_left_after_a_while() {
    let site = Site::serve(PUBLIC, |mut stream, path, _| async move {
        if path == "/robots.txt" {
            let _ = stream.write_all(&missing()).await;
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
        while stream.write_all(b".").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let server = fetch(config().timeout(Duration::from_millis(300))).unwrap();
    let why = why_not(&server, &site.url("/")).await;
    assert!(why.contains("the request timed out"), "{why}");
}
