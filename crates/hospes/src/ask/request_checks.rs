//! Checks of questions before they are sent: no secrets in forms, no sensitive data in URLs (ELIC-07, ELIC-08, ELIC-26,
//! ELIC-27).

use std::borrow::Cow;
use std::net::IpAddr;

use hospes_model::ElicitSchema;
use iri_string::types::IriStr;
use serde_json::Value;

use super::error::AskError;
use crate::redact;

/// Checks a form before it is sent.
///
/// # Errors
/// [`AskError::Secret`] for a field that asks for a secret, [`AskError::Link`] for a text with a clickable URL.
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

/// Checks a URL before it is sent: it must be encrypted, and must not contain credentials or personal data, because it
/// passes through the client and its logs.
///
/// # Errors
/// [`AskError::Unsafe`], which does not repeat sensitive parts.
pub(super) fn check_url(url: &IriStr) -> Result<(), AskError> {
    let refuse = |why: &'static str| Err(AskError::Unsafe { why });
    let authority = url.authority_components();
    let host = authority.as_ref().map_or("", |authority| authority.host());
    if host.is_empty() {
        return refuse("it has no host");
    }
    let has_scheme = |scheme: &str| url.scheme_str().eq_ignore_ascii_case(scheme);
    if !(has_scheme("https") || has_scheme("http") && is_local(host)) {
        return refuse("it does not begin with https:");
    }
    if authority.is_some_and(|authority| authority.userinfo().is_some()) {
        return refuse("it contains a user name or a password");
    }
    // The text comes back owned only if something in it was hidden.
    let tells = |text: &str| matches!(redact::text(text), Cow::Owned(_));
    let mut query = form_urlencoded::parse(url.query_str().unwrap_or_default().as_bytes());
    if query.any(|(name, value)| redact::is_secret_name(&name) || tells(&value)) {
        return refuse("its query contains a value that looks like a credential or identifies a user");
    }
    if tells(url.path_str()) || url.fragment().is_some_and(|fragment| tells(fragment.as_str())) {
        return refuse("it contains a value that looks like a credential or identifies a user");
    }
    Ok(())
}

/// Returns true if the host is this machine.
fn is_local(host: &str) -> bool {
    let name = host.to_ascii_lowercase();
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_link(text: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| text.to_ascii_lowercase().contains(scheme))
}
