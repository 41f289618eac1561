//! A person with a browser: it follows redirects, keeps cookies, and fills in the forms it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

/// Time limit for events that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A page that was shown.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) url: Url,
    pub(crate) status: u16,
    /// Its media type.
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Page {
    /// Returns the target of the page's form, if it has one.
    fn action(&self) -> Option<Url> {
        let (_, rest) = self.text.split_once("action=\"")?;
        self.url.join(rest.split_once('"')?.0).ok()
    }

    fn hidden(&self) -> Vec<(String, String)> {
        let inputs = self.text.split("<input type=\"hidden\" name=\"").skip(1);
        inputs
            .filter_map(|rest| {
                let (name, rest) = rest.split_once("\" value=\"")?;
                Some((name.to_owned(), rest.split_once('"')?.0.to_owned()))
            })
            .collect()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Browser {
    /// By authority and name.
    cookies: BTreeMap<(String, String), String>,
    /// User who signs in, by authority: a name and a password.
    users: BTreeMap<String, (String, String)>,
    /// Every address it was at.
    pub(crate) visited: Vec<Url>,
    /// URL prefix at which it stops following redirects.
    end: Option<String>,
}

impl Browser {
    /// One whose person is that user there.
    pub(crate) fn user(mut self, origin: &str, name: &str, password: &str) -> Self {
        let authority = Url::parse(origin).unwrap().authority().to_owned();
        self.users.insert(authority, (name.to_owned(), password.to_owned()));
        self
    }

    /// One that does not open what begins like this.
    pub(crate) fn stop_at(mut self, end: &str) -> Self {
        self.end = Some(end.to_owned());
        self
    }

    /// Opens an address and goes wherever it leads, but not past a page.
    pub(crate) async fn open(&mut self, url: &str) -> Page {
        self.go(Url::parse(url).unwrap(), None).await
    }

    /// Opens an address, signs in where that is asked for, and agrees to everything.
    pub(crate) async fn agree(&mut self, url: &str) -> Page {
        let page = self.open(url).await;
        self.agree_from(page).await
    }

    /// Opens an address and signs in, and does nothing more.
    pub(crate) async fn agree_to_sign_in(&mut self, url: &str) -> Page {
        let page = self.open(url).await;
        match page.action() {
            Some(action) if action.path().ends_with("/sign-in") => self.press(&page, "").await,
            _ => page,
        }
    }

    pub(crate) async fn agree_from(&mut self, mut page: Page) -> Page {
        for _ in 0..10 {
            if page.action().is_none() {
                return page;
            }
            page = self.press(&page, "allow").await;
        }
        panic!("there is no end to it: {page:?}");
    }

    /// Fills in the form of a page and sends it.
    pub(crate) async fn press(&mut self, page: &Page, decision: &str) -> Page {
        let action = page.action().unwrap();
        let mut fields = page.hidden();
        if action.path().ends_with("/sign-in") {
            let (name, password) = self.users[action.authority()].clone();
            fields.extend([("user".to_owned(), name), ("password".to_owned(), password)]);
        } else {
            fields.push(("decision".to_owned(), decision.to_owned()));
        }
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.go(action, Some(body)).await
    }

    async fn go(&mut self, mut url: Url, mut body: Option<String>) -> Page {
        for _ in 0..10 {
            self.visited.push(url.clone());
            let (status, head, text) = self.send(&url, body.take()).await;
            let location = head.iter().find(|(name, _)| name == "location");
            match location {
                Some((_, there)) => {
                    url = url.join(there).unwrap();
                    if self.end.as_ref().is_some_and(|end| url.as_str().starts_with(end)) {
                        return Page { url, status, kind: String::new(), text: String::new() };
                    }
                }
                None => {
                    let kind = head.iter().find(|(name, _)| name == "content-type");
                    let kind = kind.map(|(_, kind)| kind.clone()).unwrap_or_default();
                    return Page { url, status, kind, text };
                }
            }
        }
        panic!("there is no end to it: {url}");
    }

    async fn send(&mut self, url: &Url, body: Option<String>) -> (u16, Vec<(String, String)>, String) {
        let authority = url.authority().to_owned();
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let cookies = self.cookies.iter().filter(|((place, _), _)| *place == authority);
        let cookies: Vec<String> = cookies.map(|((_, name), value)| format!("{name}={value}")).collect();
        let mut request = match &body {
            Some(body) => format!(
                "POST {path} HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\
                 origin: {}\r\n",
                body.len(),
                url.origin().ascii_serialization(),
            ),
            None => format!("GET {path} HTTP/1.1\r\n"),
        };
        request += &format!("host: {authority}\r\nconnection: close\r\n");
        if !cookies.is_empty() {
            request += &format!("cookie: {}\r\n", cookies.join("; "));
        }
        request += "\r\n";
        request += body.as_deref().unwrap_or_default();
        let exchange = async {
            let mut stream = TcpStream::connect(&authority).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await.expect("no page came");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let head: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        for (_, cookie) in head.iter().filter(|(name, _)| name == "set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert((authority.clone(), name.to_owned()), value.to_owned());
        }
        (status, head, text.to_owned())
    }
}
