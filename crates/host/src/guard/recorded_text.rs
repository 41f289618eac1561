//! Names and addresses in the form in which they are recorded.

/// Maximum length of a recorded name, in characters.
const MAX_RECORDED: usize = 300;

/// Returns a name or address in the form in which it is recorded: without a password or a query, and at most
/// `MAX_RECORDED` characters long.
pub(super) fn clipped(text: &str) -> String {
    let bare = match url::Url::parse(text) {
        Ok(mut url) if url.has_authority() || url.query().is_some() => {
            // These fail only for URLs without a host, which have neither a user nor a password.
            let _none = url.set_password(None);
            let _none = url.set_username("");
            url.set_query(None);
            url.set_fragment(None);
            url.into()
        }
        _ => text.to_owned(),
    };
    match bare.char_indices().nth(MAX_RECORDED) {
        Some((at, _)) => format!("{}…", &bare[..at]),
        None => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_an_address_is_recorded() {
        for (text, recorded) in [
            ("postgres://ann:hunter2@db.example/x?token=1#y", "postgres://db.example/x"),
            ("https://example.com/a?key=hunter2", "https://example.com/a"),
            ("file:///srv/a", "file:///srv/a"),
            ("read_file", "read_file"),
        ] {
            assert_eq!(clipped(text), recorded);
        }
        assert_eq!(clipped(&"x".repeat(1000)).chars().count(), MAX_RECORDED + 1);
    }
}
