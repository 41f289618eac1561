//! Proxies on the way to a server, and whom the client trusts there.

use std::io::Write as _;
use std::sync::Arc;

use hospes::client::ClientBuilder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A name that no resolver knows; the proxy does.
const NAME: &str = "server.test";

/// Requests that a proxy received: the first line and the credentials of each.
type Memory = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// A proxy for servers on this machine, whatever they are called.
struct Proxy {
    address: String,
    asked: Memory,
}

impl Proxy {
    /// Starts a proxy that admits all requests or none.
    async fn start(lets_through: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Memory::default();
        let memory = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(pass(client, lets_through, Arc::clone(&memory)));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<(String, Option<String>)> {
        self.asked.lock().unwrap().clone()
    }
}

async fn pass(mut client: TcpStream, lets_through: bool, asked: Memory) {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next().unwrap().to_owned();
    let who = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.to_owned())
    });
    asked.lock().unwrap().push((line.clone(), who));
    if !lets_through {
        client.write_all(b"HTTP/1.1 407 Who Are You\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        return;
    }
    let port =
        line.split(' ').nth(1).unwrap().trim_start_matches("http://").split(['/', ' ']).next().unwrap();
    let port: u16 = port.rsplit(':').next().unwrap().parse().unwrap();
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    if line.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Go On\r\n\r\n").await.unwrap();
    } else {
        server.write_all(&head).await.unwrap();
    }
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// An authority of our own, in a file, and a server by the name that it vouches for, in front of `fake`.
async fn secured(fake: &Fake) -> (tempfile::NamedTempFile, u16) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec![NAME.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = fake.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let mut server = TcpStream::connect(behind).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (file, port)
}

async fn hospitable() -> Fake {
    Fake::serve(modern(|asked| Said::json(&text(asked, "hi")))).await
}

fn builder() -> ClientBuilder {
    Client::builder().revision(Revision::V2026_07_28)
}

#[tokio::test]
async fn a_proxy_is_told_where_a_plain_request_goes_and_who_asks() {
    let (fake, proxy) = (hospitable().await, Proxy::start(true).await);
    let port = fake.url.trim_end_matches("/mcp").rsplit(':').next().unwrap().to_owned();
    let url = format!("http://{NAME}:{port}/mcp");
    let client =
        builder().proxy(format!("http://me:s3cret@{}", proxy.address), "").connect(&url).await.unwrap();
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    let asked = proxy.asked();
    assert_eq!(asked[0].0, format!("POST {url} HTTP/1.1"));
    assert_eq!(asked[0].1.as_deref(), Some("Basic bWU6czNjcmV0"));
    assert_eq!(fake.asked()[0].header("host"), Some(&*format!("{NAME}:{port}")));
}

#[tokio::test]
async fn a_secure_server_is_reached_through_a_tunnel_and_trusted_only_if_told_to() {
    let (fake, proxy) = (hospitable().await, Proxy::start(true).await);
    let (authority, port) = secured(&fake).await;
    let url = format!("https://{NAME}:{port}/mcp");
    let through = || builder().proxy(format!("http://me:s3cret@{}", proxy.address), "");
    let error = through().connect(&url).await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Tls, "{error}");
    assert!(error.to_string().contains(&format!("through the proxy {}", proxy.address)), "{error}");
    assert!(fake.asked().is_empty());
    let client = through().ca_file(authority.path()).connect(&url).await.unwrap();
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    for (line, who) in proxy.asked() {
        assert_eq!(line, format!("CONNECT {NAME}:{port} HTTP/1.1"));
        assert_eq!(who.as_deref(), Some("Basic bWU6czNjcmV0"));
    }
    // What the proxy is told is not for the server.
    assert!(fake.asked().iter().all(|asked| asked.header("proxy-authorization").is_none()));
}

#[tokio::test]
async fn what_a_proxy_refuses_is_said_to_be_its_doing() {
    let proxy = Proxy::start(false).await;
    for scheme in ["http", "https"] {
        let through = builder().proxy(format!("http://me:s3cret@{}", proxy.address), "");
        let error = through.connect(format!("{scheme}://{NAME}/mcp").as_str()).await.unwrap_err();
        match scheme {
            "http" => assert_eq!(error.status, Some(407)),
            _ => assert!(error.to_string().contains("proxy authorization required"), "{error}"),
        }
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let nobody = "http://127.0.0.1:1";
    let error = builder().proxy(nobody, "").connect(format!("http://{NAME}/mcp").as_str()).await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Tcp);
    assert!(error.to_string().contains("through the proxy 127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn servers_on_this_machine_need_no_proxy_and_wrong_settings_have_names() {
    let fake = hospitable().await;
    let client = builder().proxy("http://127.0.0.1:1", "").connect(&fake.url).await.unwrap();
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    let error =
        builder().proxy("socks5://me:s3cret@x", "").connect("http://server.test/mcp").await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Target);
    assert!(error.to_string().contains("proxy is not a supported proxy URL"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    let empty = tempfile::NamedTempFile::new().unwrap();
    for file in [empty.path(), std::path::Path::new("/nowhere/ca.pem")] {
        let error = builder().ca_file(file).connect("https://server.test/mcp").await.unwrap_err();
        assert_eq!(error.stage, ConnectStage::Target);
        let says = error.to_string();
        assert!(says.contains("ca_file: ") && says.contains(&file.display().to_string()), "{says}");
    }
}

/// URL of the server that the child process calls.
const URL: &str = "HOSPES_TEST_URL";

#[tokio::test]
async fn the_environment_names_the_proxy_and_whom_to_trust() {
    if let Ok(url) = std::env::var(URL) {
        let outcome =
            async { builder().connect(url.as_str()).await?.call("echo", ()).await.map_err(Into::into) };
        let outcome: Result<_, hospes::Error> = outcome.await;
        println!("outcome: {}", outcome.map_or_else(|error| error.to_string(), |result| result.all_text()));
        return;
    }
    let (fake, proxy) = (hospitable().await, Proxy::start(true).await);
    let (authority, port) = secured(&fake).await;
    let url = format!("https://{NAME}:{port}/mcp");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(authority.path(), folder.path().join("ca.pem")).unwrap();
    let proxied = ("HTTPS_PROXY", format!("http://{}", proxy.address));
    let path = |path: &std::path::Path| path.display().to_string();
    let trusted = ("SSL_CERT_FILE", path(authority.path()));
    let folders = ("SSL_CERT_DIR", format!("/nowhere:{}", path(folder.path())));
    let nothing = ("SSL_CERT_FILE", "/nowhere/ca.pem".to_owned());
    for (environment, says, is_asked) in [
        (vec![&proxied, &trusted], "outcome: hi", true),
        (vec![&proxied, &folders], "outcome: hi", true),
        (vec![&proxied], "certificate", true),
        (vec![&proxied, &nothing], "SSL_CERT_FILE: /nowhere/ca.pem", false),
        (vec![&trusted, &proxied, &("NO_PROXY", ".test".to_owned())], "outcome: ", false),
    ] {
        let before = proxy.asked().len();
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "client_http::network::the_environment_names_the_proxy_and_whom_to_trust",
            "--nocapture",
        ]);
        for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            child.env_remove(name);
        }
        child.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").env(URL, &url);
        child.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = child.output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said =
            said.lines().find(|line| line.contains("outcome: ")).unwrap_or_else(|| panic!("{output:?}"));
        assert!(said.contains(says), "{environment:?}: {said}");
        assert_eq!(proxy.asked().len() > before, is_asked, "{environment:?}: {said}");
    }
}
