//! Checks of authorization: the metadata of the server, its authorization server, and tokens.

use std::net::{Ipv4Addr, TcpListener};

use hospes::client::ConnectError;
use hospes_auth::metadata::{
    AuthorizationServerMetadata, ProtectedResourceMetadata, resource_metadata_urls, server_metadata_urls,
};
use hospes_auth::{Challenge, Issuer, UnixClock};
use hospes_host::accounts::token_hint;
use hospes_oauth::StoredTokens;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use super::check::{DoctorChain, DoctorCode, DoctorFinding, O01, O02, O03, O04, T01};
use super::fetch;
use super::system::{CHECK_TIMEOUT, duration};
use crate::credentials;
use crate::output::{one_line, printable, shell_word};
use crate::shown_commands::shown_command;

/// Steps that are not reached if the token is refused.
const LATER: [&DoctorCode; 1] = [&T01];

/// A server that refused a request for want of a token.
pub(super) struct RefusedRequest<'a> {
    pub(super) error: &'a ConnectError,
    pub(super) url: &'a str,
    /// True if the entry has a token in its headers.
    pub(super) has_header: bool,
    /// Secret of which the token in the headers is made.
    pub(super) secret: Option<&'a str>,
}

/// Returns what replaces the token in the headers of an entry.
fn replace_token(server: &str, secret: Option<&str>) -> String {
    match secret {
        Some(secret) => format!("hospes secret set {}", shell_word(secret)),
        None => format!("replace the token in the entry by a secret: {}", token_hint(server)),
    }
}

/// Reports an expired token that cannot be renewed. Returns false if there is one.
pub(super) async fn token(url: &str, chain: &mut DoctorChain) -> bool {
    let Some(ago) = stored(url).await.and_then(|tokens| expired_ago(&tokens)) else { return true };
    let finding = DoctorFinding::new(format!("the access token expired {} ago", duration(ago)))
        .why("the authorization server gave no token with which it could be renewed")
        .mend(shown_command("auth login", &chain.target));
    chain.fail(&O03, finding, &LATER);
    false
}

/// Returns the stored tokens for a URL. They are read once for all servers. Without a key in time there are none; the
/// keyring has its own check.
async fn stored(url: &str) -> Option<StoredTokens> {
    static ALL: OnceCell<Vec<StoredTokens>> = OnceCell::const_new();
    let read = || {
        let (store, _) = credentials::open_existing().ok()??;
        StoredTokens::all(&*store).ok()
    };
    // On a thread of its own: a locked keyring may ask the person, and the call blocks meanwhile.
    let read = async || timeout(CHECK_TIMEOUT, spawn_blocking(read)).await.ok()?.ok()?;
    let all = ALL.get_or_init(async || read().await.unwrap_or_default()).await;
    all.iter().find(|tokens| tokens.account.is_empty() && tokens.is_for(url)).cloned()
}

fn expired_ago(tokens: &StoredTokens) -> Option<u64> {
    let end = tokens.expires_at.filter(|_| !tokens.renews)?;
    UnixClock::system().now().checked_sub(end)
}

/// Explains why a server refused a request with 401 or 403.
pub(super) async fn explain(refused: RefusedRequest<'_>, chain: &mut DoctorChain) {
    let RefusedRequest { error, url, has_header, secret } = refused;
    let name = chain.target.clone();
    let challenge = error.challenge.as_deref().and_then(|line| {
        let challenges = Challenge::parse(line);
        challenges.into_iter().find(|one| one.has_scheme("Bearer") || one.has_scheme("DPoP"))
    });
    let said = |name: &str| challenge.as_ref().and_then(|one| one.get(name)).map(printable);
    if let Some(challenge) = challenge.as_ref().filter(|challenge| challenge.wants_more_scopes()) {
        let scopes = challenge.scopes().map(|scopes| scopes.to_string()).unwrap_or_default();
        let mend = match scopes.is_empty() {
            true => shown_command("auth login", &name),
            false => {
                format!("{} --scope {}", shown_command("auth login", &name), shell_word(&one_line(&scopes)))
            }
        };
        let finding =
            DoctorFinding::new(format!("the token lacks the scope {}", printable(&scopes))).mend(mend);
        return chain.fail(&O03, finding, &LATER);
    }
    let tokens = stored(url).await;
    if has_header || tokens.is_some() || said("error").as_deref() == Some("invalid_token") {
        let finding = match &error.source {
            Some(source) => {
                DoctorFinding::new("the token is refused").why(crate::exit::error_chain(&**source))
            }
            None => DoctorFinding::new("the token is refused")
                .why(said("error_description").unwrap_or_else(|| error.what.clone())),
        };
        let mend = match has_header {
            true => replace_token(&name, secret),
            false => shown_command("auth login", &name),
        };
        return chain.fail(&O03, finding.mend(mend), &LATER);
    }
    let Ok(endpoint) = Url::parse(url) else { return };
    let Some(resource) = resource(challenge.as_ref(), &endpoint).await else {
        let finding = DoctorFinding::new("the server asks for a token, and does not say where to get one")
            .why("its answer 401 names no metadata, and there are none at the well-known URLs")
            .mend(match name.contains("://") {
                true => format!(
                    "add it with a token of yours, as `Bearer TOKEN` in a file: hospes add --header Authorization=@FILE {}",
                    shell_word(&name)
                ),
                false => token_hint(&name),
            });
        return chain.fail(&O01, finding, &LATER);
    };
    if let Err(finding) = issuer(&resource, &endpoint, &name).await {
        return chain.fail(&O02, finding, &LATER);
    }
    // A person will have to sign in with a browser, which returns here.
    if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        let finding = DoctorFinding::new("no port of this machine can be opened for the end of the sign-in")
            .why(error.to_string())
            .mend(format!("{} --no-browser", shown_command("auth login", &name)));
        return chain.fail(&O04, finding, &LATER);
    }
    let finding =
        DoctorFinding::new("the server asks for a sign-in").mend(shown_command("auth login", &name));
    chain.fail(&O01, finding, &LATER);
}

/// Reads the metadata of the server, from the URL in its challenge or the well-known ones.
async fn resource(challenge: Option<&Challenge>, endpoint: &Url) -> Option<ProtectedResourceMetadata> {
    let named = challenge.and_then(|one| one.get("resource_metadata")).and_then(|url| Url::parse(url).ok());
    for url in named.into_iter().chain(resource_metadata_urls(endpoint)) {
        if let Ok(found) = fetch::document::<ProtectedResourceMetadata>(&url, endpoint).await {
            return Some(found);
        }
    }
    None
}

/// Checks what the authorization server offers.
async fn issuer(
    resource: &ProtectedResourceMetadata,
    endpoint: &Url,
    name: &str,
) -> Result<(), DoctorFinding> {
    let report = |text: &str| format!("report it to the operator of the server: {text}");
    if let Err(error) = resource.check(endpoint, false) {
        return Err(DoctorFinding::new("the metadata of the server cannot be used")
            .why(error.to_string())
            .mend(report("its protected resource metadata")));
    }
    let Some(issuer) = resource.authorization_servers.first() else { return Ok(()) };
    let shown = printable(issuer.as_str());
    let metadata = match metadata(issuer, endpoint).await {
        Ok(metadata) => metadata,
        Err(why) => {
            return Err(DoctorFinding::new(format!("the authorization server {shown} has no metadata"))
                .why(why)
                .mend(report("the metadata of its authorization server")));
        }
    };
    let checked = metadata.check_issuer(issuer, false).and_then(|()| metadata.check_code_flow());
    if let Err(error) = checked {
        return Err(DoctorFinding::new(format!("the authorization server {shown} cannot be used"))
            .why(error.to_string())
            .mend(report("the metadata of its authorization server")));
    }
    let registers = metadata.registration_endpoint.is_some()
        || metadata.client_id_metadata_document_supported.unwrap_or(false);
    match registers {
        true => Ok(()),
        false => {
            Err(DoctorFinding::new(format!("the authorization server {shown} lets no new client register"))
                .why("it has neither a registration endpoint nor client metadata documents")
                .mend(format!(
                    "register a client there, then: {} --client-id ID",
                    shown_command("auth login", name)
                )))
        }
    }
}

async fn metadata(issuer: &Issuer, endpoint: &Url) -> Result<AuthorizationServerMetadata, String> {
    let mut why = "its identifier is not a URL".to_owned();
    for url in server_metadata_urls(issuer) {
        match fetch::document(&url, endpoint).await {
            Ok(found) => return Ok(found),
            Err(error) => why = format!("{url}: {error}"),
        }
    }
    Err(why)
}
