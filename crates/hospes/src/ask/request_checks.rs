//! Checks of questions before they are asked: no secrets in a form, and no URLs that give something away (ELIC-07,
//! ELIC-08, ELIC-26, ELIC-27).

use std::borrow::Cow;

use hospes_model::ElicitSchema;
use serde_json::Value;
use url::{Host, Url};

use super::error::AskError;
use crate::redact;

/// Checks a form before anybody sees it.
///
/// # Errors
/// [`AskError::Secret`] for a field that asks for one, [`AskError::Link`] where a URL stands to be clicked at.
pub(super) fn check_form(message: &str, form: &ElicitSchema) -> Result<(), AskError> {
    let link = |place: &str| AskError::Link { place: place.to_owned() };
    if has_link(message) {
        return Err(link("the message"));
    }
    for (name, field) in &form.properties.0 {
        // The words are what people see, whatever kind of field it is.
        let shown = serde_json::to_value(field).unwrap_or_default();
        let words =
            ["title", "description"].map(|key| shown.get(key).and_then(Value::as_str).unwrap_or_default());
        if redact::is_secret_name(name) || redact::is_secret_name(words[0]) {
            return Err(AskError::Secret { field: name.clone() });
        }
        if words.into_iter().any(has_link) {
            return Err(link(name));
        }
    }
    Ok(())
}

/// Checks a URL before the person is sent there: the connection cannot be listened to, and the text itself, which
/// passes through the client and its logs, opens nothing and says nothing about anybody.
///
/// # Errors
/// [`AskError::Unsafe`]; it does not repeat what should not be seen.
pub(super) fn check_url(url: &Url) -> Result<(), AskError> {
    let refuse = |why: &'static str| Err(AskError::Unsafe { why });
    let local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && local) {
        return refuse("it does not begin with https:");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it contains a user name or a password");
    }
    // The text comes back owned only if something in it was hidden.
    let tells = |text: &str| matches!(redact::text(text), Cow::Owned(_));
    if url.query_pairs().any(|(name, value)| redact::is_secret_name(&name) || tells(&value)) {
        return refuse("its query contains a value that looks like a credential or identifies a user");
    }
    if tells(url.path()) || url.fragment().is_some_and(tells) {
        return refuse("it contains a value that looks like a credential or identifies a user");
    }
    Ok(())
}

fn has_link(text: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| text.to_ascii_lowercase().contains(scheme))
}
