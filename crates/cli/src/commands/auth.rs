//! `hospes auth`: signs in to servers over HTTP, and out again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hospes::client::{Client, Target, UrlTarget};
use hospes_auth::{ClientId, RedirectUri, Scopes, UnixClock};
use hospes_host::config::{FleetConfig, ServerConfig, ServerTransport};
use hospes_host::{profile_account, upstream};
use hospes_oauth::flow::DevicePrompt;
use hospes_oauth::{
    BrowserSignIn, CredentialStore, DeferredSignIn, DeviceCodeSignIn, FlowError, GrantType,
    MemoryCredentialStore, OAuthClient, OAuthClientBuilder, OAuthClientSettings, PreregisteredOAuthClient,
    RepairStep, RevocationResult, StoredTokens, TokenSet,
};
use serde_json::{Value, json};

use super::{InterruptListener, end_with_input, interrupted};
use crate::args::{AuthCommand, ClientMetadataArgs, LoginArgs, LogoutArgs, SignInServerArgs};
use crate::credentials::{self, CredentialsStore};
use crate::exit::{CliError, CliResult, FailureCode, error_chain};
use crate::fleet::{FleetTokenStore, SharedState};
use crate::output::{self, BOLD, CliOutput, DIM, announce, paint, printable};
use crate::target::{find, find_of_profile};

/// Redirect URI for a browser on another machine. No server listens there.
const UNREACHABLE_CALLBACK: &str = "http://127.0.0.1:6276/callback";
/// Maximum time to connect for a sign-in to a server of a configuration, without the time that the person takes.
const SIGN_IN_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: AuthCommand, output: CliOutput) -> CliResult {
    match args {
        AuthCommand::Login(args) => Box::pin(login(args, output)).await,
        AuthCommand::Status => status(output).await,
        AuthCommand::Logout(args) => logout(&args, output).await,
        AuthCommand::Repair(args) => Box::pin(repair(args, output)).await,
        AuthCommand::ClientMetadata(args) => client_metadata(&args, output),
    }
}

/// Creates the client that authorizes requests to `url` with the tokens that an earlier sign-in left in `store`. It
/// identifies itself as `given` if the server already knows a client.
pub(crate) fn client(
    url: &str,
    given: Option<PreregisteredOAuthClient>,
    store: Option<Arc<dyn CredentialStore>>,
) -> CliResult<OAuthClient> {
    let builder = builder(url)?.store(store.unwrap_or_else(|| Arc::new(MemoryCredentialStore::new())));
    Ok(known_as(builder, given).build())
}

fn known_as(builder: OAuthClientBuilder, given: Option<PreregisteredOAuthClient>) -> OAuthClientBuilder {
    match given {
        Some(given) => builder.client(given),
        None => builder,
    }
}

fn builder(url: &str) -> CliResult<OAuthClientBuilder> {
    OAuthClient::builder(url)
        .map_err(|error| CliError::usage(format!("cannot sign in to {}: {error}", printable(url))))
}

async fn login(args: LoginArgs, output: CliOutput) -> CliResult {
    let (url, known) = url_of(&args.site)?;
    let open = |wanted| credentials::open_or_create(wanted, output).map(|store| store as _);
    let oauth = interactive_client(&args, &url, known, open)?;
    let mut ending = InterruptListener::new()?;
    if args.for_host.is_some() {
        end_with_input();
    }
    let signing = Box::pin(sign_in(&oauth, &url, args.site.connect_timeout, output));
    let Some(signed) = ending.unless(signing).await else { return Err(interrupted("not signed in")) };
    let tokens = signed?;
    // The host knows where it has signed in.
    if args.for_host.is_none() {
        report(&url, &tokens, output);
    }
    Ok(())
}

/// Settings of the configuration for the client of a server.
struct KnownClient {
    /// Client that is registered with the authorization server.
    client: Option<PreregisteredOAuthClient>,
    /// Scopes to request.
    scopes: Vec<String>,
    /// Fleet whose database has the tokens.
    fleet: Option<FleetConfig>,
}

/// Creates the client that signs in to `url` interactively, in the way that `args` select, and keeps the tokens in
/// `store`, or in the database of the fleet that the configuration has. A client given on the command line takes precedence over `known`, the one from the configuration.
fn interactive_client(
    args: &LoginArgs,
    url: &UrlTarget,
    known: KnownClient,
    store: impl FnOnce(CredentialsStore) -> CliResult<Arc<dyn CredentialStore>>,
) -> CliResult<OAuthClient> {
    if !output::is_interactive() && args.no_browser {
        return Err(CliError::new(FailureCode::Unauthorized, "cannot sign in without a terminal")
            .hint("pass your own token with `--header 'Authorization: …'`"));
    }
    let store = match known.fleet {
        // All nodes have the account then.
        Some(fleet) => FleetTokenStore::new(fleet),
        None => store(args.credentials_store)?,
    };
    let mut builder = builder(&url.url)?.store(store).account(account_of(&args.site)).settings(|settings| {
        let scopes = if args.scopes.is_empty() { &known.scopes } else { &args.scopes };
        settings.scopes = Scopes::parse(&scopes.join(" "));
    });
    if let Some(id) = &args.client_id {
        let id = ClientId::new(id).map_err(|error| CliError::usage("--client-id").with_cause(&error))?;
        let mut given = PreregisteredOAuthClient::new(id);
        if let Some(variable) = &args.client_secret_env {
            // From a variable, because arguments are visible in the list of processes.
            let secret = std::env::var(variable)
                .map_err(|_| CliError::usage(format!("--client-secret-env: {variable} is not set")))?;
            given = given.secret(secret);
        }
        builder = builder.client(given);
    } else if args.metadata_url.is_none() {
        builder = known_as(builder, known.client);
    }
    if let Some(id) = &args.metadata_url {
        let id = ClientId::new(id).map_err(|error| CliError::usage("--metadata-url").with_cause(&error))?;
        builder = builder.metadata_url(id);
    }
    let builder = if args.device {
        builder.grant(GrantType::Device).sign_in(DeviceCodeSignIn::new(|prompt| {
            show_code(prompt);
            Ok(())
        }))
    } else if args.no_browser {
        let nobody = RedirectUri::new(UNREACHABLE_CALLBACK)
            .map_err(|error| CliError::usage("invalid redirect URI").with_cause(&error))?;
        builder.sign_in(DeferredSignIn::new(nobody))
    } else if args.for_host.is_some() {
        let host = url.url.parse().ok().and_then(|url: url::Url| url.host_str().map(str::to_owned));
        builder.sign_in(BrowserSignIn::new(move |page| {
            let line = json!({ "event": "signIn", "host": host, "url": page.as_str() });
            CliOutput { json: true, quiet: true }.line(&line.to_string());
            Ok(())
        }))
    } else {
        builder.sign_in(BrowserSignIn::new(open_browser))
    };
    Ok(builder.build())
}

/// Opens a page in the browser, and prints its URL for the case that none opens.
pub(crate) fn open_browser(page: &url::Url) -> io::Result<()> {
    announce(format_args!(
        "opening {} in the browser; if it does not open:\n  {page}",
        paint(BOLD, page.host_str().unwrap_or_default())
    ));
    // The URL has been printed and can be opened by hand.
    if let Err(error) = webbrowser::open(page.as_str()) {
        tracing::info!(%error, "could not open a browser");
    }
    Ok(())
}

/// Signs in to a server with a browser, which `show` brings to the page. Tokens are kept in `store`. `begun` gets the client
/// when it has forgotten those of an earlier sign-in, and before it can have new ones: it has them even if the sign-in fails
/// afterwards, or is cancelled.
pub(crate) async fn sign_in_to_server(
    server: &ServerConfig,
    store: Arc<dyn CredentialStore>,
    show: impl Fn(&url::Url) -> io::Result<()> + Send + Sync + 'static,
    begun: impl FnOnce(OAuthClient) + Send,
    output: CliOutput,
) -> CliResult {
    let not_http = || CliError::usage("sign-in is for servers with a URL only");
    let ServerTransport::Http(http) = &server.transport else { return Err(not_http()) };
    let target = upstream::target(server, None)
        .map_err(|error| CliError::usage("cannot sign in to the server").with_cause(&error))?;
    let Target::Url(url) = target else { return Err(not_http()) };
    let builder = builder(&url.url)?
        .store(store)
        .settings(|settings| settings.scopes = Scopes::parse(&http.scopes.join(" ")))
        .sign_in(BrowserSignIn::new(show));
    let oauth = known_as(builder, http.client.as_ref().and_then(|client| client.given())).build();
    oauth.sign_out().await.map_err(|error| failed(&error))?;
    begun(oauth.clone());
    Box::pin(sign_in_anew(&oauth, &url, SIGN_IN_CONNECT_TIMEOUT, output)).await?;
    Ok(())
}

/// Prints the code and the page at which to enter it.
fn show_code(prompt: &DevicePrompt) {
    let page = printable(prompt.verification_uri.as_str());
    announce(format_args!(
        "Open this page on any machine and enter the code:\n  {page}\n  {}\n",
        paint(BOLD, printable(&prompt.user_code))
    ));
    if let Some(whole) = &prompt.verification_uri_complete {
        announce(format_args!(
            "Or open this page, which includes the code:\n  {}\n",
            printable(whole.as_str())
        ));
    }
    let left = prompt.ends_at.saturating_sub(UnixClock::system().now());
    announce(paint(DIM, format_args!("Waiting for the sign-in, for at most {} min.", left.div_ceil(60))));
}

async fn repair(args: LoginArgs, output: CliOutput) -> CliResult {
    let (url, known) = url_of(&args.site)?;
    let open = |wanted| credentials::repair_store(wanted, output).map(|store| store as _);
    let oauth = interactive_client(&args, &url, known, open)?;
    let mut ending = InterruptListener::new()?;
    let repairing = Box::pin(async {
        match oauth.repair().await {
            Ok(repaired) => Ok((repaired.did, repaired.tokens)),
            Err(FlowError::Visit(page)) => {
                let tokens = sign_in_by_pasted_url(&oauth, page.as_str(), output).await?;
                Ok((vec![RepairStep::SignedIn], tokens))
            }
            Err(error) => Err(failed(&error)),
        }
    });
    let Some(repaired) = ending.unless(repairing).await else {
        return Err(interrupted("nothing was repaired"));
    };
    let (did, tokens) = repaired?;
    let did: Vec<String> = did.iter().map(ToString::to_string).collect();
    if output.json {
        let mut described = TokenSummary::of(&url.to_string(), &tokens).described();
        described["did"] = json!(did);
        output.value(&described);
    } else {
        for did in &did {
            output.say(printable(did));
        }
        output
            .say(format_args!("signed in to {url}  {}", paint(DIM, TokenSummary::of("", &tokens).summary())));
    }
    Ok(())
}

fn client_metadata(args: &ClientMetadataArgs, output: CliOutput) -> CliResult {
    let mistake = |error: &dyn std::error::Error| CliError::usage(error.to_string());
    let mut settings = OAuthClientSettings::default();
    settings.client_name.clone_from(&args.name);
    settings.metadata_url = Some(ClientId::new(&args.url).map_err(|error| mistake(&error))?);
    let redirects: Result<Vec<_>, _> = args.redirect_uris.iter().map(RedirectUri::new).collect();
    if args.jwks_uri.is_some() {
        return Err(CliError::usage("--jwks-uri: not supported, because this program does not sign with a key").hint(
            "omit it; a program that signs can create its document with `OAuthClientSettings::document` of hospes-auth",
        ));
    }
    let document = settings.document(redirects.map_err(|error| mistake(&error))?, None);
    let document = document.map_err(|error| mistake(&error))?;
    let document = serde_json::to_value(&document).map_err(|error| mistake(&error))?;
    output.value(&document);
    output.say(paint(DIM, format_args!("publish this at {} as application/json", printable(&args.url))));
    Ok(())
}

/// Signs in with a browser on another machine: prints the page's URL and reads the final redirect URL.
async fn sign_in_by_pasted_url(
    oauth: &OAuthClient,
    page: &str,
    output: CliOutput,
) -> CliResult<Arc<TokenSet>> {
    announce(format_args!("Open this page and sign in:\n  {page}\n"));
    let question = "Paste the final URL from the browser's address bar (the page itself will not load): ";
    let asked = tokio::task::spawn_blocking(move || output.ask(question)).await;
    let answer = asked.ok().flatten().unwrap_or_default();
    if answer.trim().is_empty() {
        return Err(CliError::new(FailureCode::Unauthorized, "sign-in was cancelled: no URL was entered"));
    }
    oauth.finish(answer.trim()).await.map_err(|error| failed(&error))
}

/// Signs in by connecting to the server, which states its requirements.
async fn sign_in(
    oauth: &OAuthClient,
    url: &UrlTarget,
    connect_timeout: Duration,
    output: CliOutput,
) -> CliResult<Arc<TokenSet>> {
    // With valid tokens the server would admit the client, and no sign-in would take place.
    oauth.sign_out().await.map_err(|error| failed(&error))?;
    sign_in_anew(oauth, url, connect_timeout, output).await
}

/// Signs in with a client that has no tokens.
async fn sign_in_anew(
    oauth: &OAuthClient,
    url: &UrlTarget,
    connect_timeout: Duration,
    output: CliOutput,
) -> CliResult<Arc<TokenSet>> {
    let target = url.clone().authorizer(Arc::new(oauth.clone()));
    let builder = Client::builder().info(hospes_host::implementation());
    match builder.connect_timeout(connect_timeout).connect(target).await {
        Ok(client) => {
            // Some servers let everybody connect and require sign-in at the first request.
            let listed = client.tools().all().await;
            client.close().await;
            if oauth.tokens().await.map_err(|error| failed(&error))?.is_none()
                && let Err(error) = listed
            {
                return Err(error.into());
            }
        }
        Err(error) => match error.sign_in.clone() {
            None => return Err(error.into()),
            Some(page) => {
                sign_in_by_pasted_url(oauth, &page, output).await?;
            }
        },
    }
    let tokens = oauth.tokens().await.map_err(|error| failed(&error))?;
    tokens.ok_or_else(|| CliError::usage(format!("{url} does not require sign-in")))
}

/// Returns the tokens in a store, which may wait for a database.
async fn all_tokens(store: Arc<dyn CredentialStore>) -> CliResult<Vec<StoredTokens>> {
    let read = tokio::task::spawn_blocking(move || StoredTokens::all(&*store)).await;
    let read = read.map_err(|error| CliError::usage("cannot read the tokens").with_cause(&error))?;
    read.map_err(|error| CliError::usage(error_chain(&error)))
}

async fn status(output: CliOutput) -> CliResult {
    let (store, key, place) = match SharedState::default_tokens()? {
        Some(store) => {
            (Some(store as Arc<dyn CredentialStore>), None, "the database of the fleet".to_owned())
        }
        None => {
            let (store, key) = credentials::open_existing()?.unzip();
            (store.map(|store| store as _), key, credentials::describe_location())
        }
    };
    let kept = match store {
        Some(store) => all_tokens(store).await?,
        None => Vec::new(),
    };
    if output.json {
        let servers: Vec<Value> = kept.iter().map(|kept| TokenSummary::from(kept).described()).collect();
        let mut described = json!({ "servers": servers, "store": place });
        if let Some(key) = key {
            described["key"] = key.word().into();
        }
        output.value(&described);
        return Ok(());
    }
    if kept.is_empty() {
        output.say("not signed in to any server");
    }
    let key = key.map(|key| format!(", encrypted with the key {}", key.shown())).unwrap_or_default();
    output.say(paint(DIM, format_args!("tokens are stored in {place}{key}")));
    for shown in kept.iter().map(TokenSummary::from) {
        let whose = shown.user().map(|user| format!(" as {}", printable(user))).unwrap_or_default();
        let query = if shown.has_query { "?…" } else { "" };
        let url = paint(BOLD, format_args!("{}{query}", printable(shown.url)));
        output.result(format_args!("{url}{whose}  {}", paint(DIM, shown.summary())));
    }
    Ok(())
}

async fn logout(args: &LogoutArgs, output: CliOutput) -> CliResult {
    let (url, known) = url_of(&args.site)?;
    let store = match known.fleet {
        Some(fleet) => Some(FleetTokenStore::new(fleet) as Arc<dyn CredentialStore>),
        None => credentials::open_existing()?.map(|(store, _)| store as _),
    };
    let Some(user) = &args.user else {
        let builder =
            builder(&url.url)?.store(store.unwrap_or_else(|| Arc::new(MemoryCredentialStore::new())));
        let oauth = known_as(builder.account(account_of(&args.site)), known.client).build();
        let revoked = oauth.revoke().await.map_err(|error| failed(&error))?;
        return signed_out(&revoked, &url, None, output);
    };
    // The account of a host's user at the server. A running host notices the change within moments.
    let mut last = RevocationResult::Nothing;
    if let Some(store) = store {
        for kept in all_tokens(Arc::clone(&store)).await? {
            let is_theirs = kept.account == *user || TokenSummary::from(&kept).user() == Some(user);
            if is_theirs && kept.is_for(&url.url) {
                let oauth = builder(&url.url)?.store(Arc::clone(&store)).account(&kept.account);
                let oauth = known_as(oauth, known.client.clone()).build();
                let revoked = oauth.revoke().await.map_err(|error| failed(&error))?;
                // In any case, because an entry that could not be revoked must not be used again.
                let store = Arc::clone(&store);
                let forgotten = tokio::task::spawn_blocking(move || kept.forget(&*store)).await;
                forgotten
                    .map_err(|error| CliError::usage("cannot remove the tokens").with_cause(&error))?
                    .map_err(|error| CliError::usage(error_chain(&error)))?;
                // There was an account, so that `Nothing` would be wrong to report.
                last =
                    if revoked == RevocationResult::Nothing { RevocationResult::NotOffered } else { revoked };
            }
        }
    }
    signed_out(&last, &url, Some(user), output)
}

/// Reports the outcome of revoking tokens.
fn signed_out(
    revoked: &RevocationResult,
    url: &UrlTarget,
    user: Option<&str>,
    output: CliOutput,
) -> CliResult {
    if output.json {
        output.value(&json!({
            "url": url.to_string(),
            "signedOut": !matches!(revoked, RevocationResult::Nothing),
            "revoked": matches!(revoked, RevocationResult::Revoked),
        }));
    }
    let whose = user.map(|user| format!(" of {}", printable(user))).unwrap_or_default();
    match (revoked, user) {
        (RevocationResult::Nothing, None) => output.say(format_args!("not signed in to {url}")),
        (RevocationResult::Nothing, Some(user)) => {
            output.say(format_args!("{} has no account at {url}", printable(user)));
        }
        (RevocationResult::Revoked, _) => {
            output.say(format_args!("the tokens{whose} for {url} were revoked and deleted"));
        }
        (RevocationResult::Failed(error), _) => {
            output.say(format_args!("the tokens{whose} for {url} were deleted"));
            output.warn(format_args!(
                "the tokens could not be revoked and remain valid until they expire: {}",
                printable(&error_chain(error))
            ));
        }
        _ => output.say(format_args!(
            "the tokens{whose} for {url} were deleted; the authorization server does not support revocation, so they \
             remain valid until they expire"
        )),
    }
    Ok(())
}

/// Returns the URL to sign in to, and what the configuration says of the client.
fn url_of(site: &SignInServerArgs) -> CliResult<(UrlTarget, KnownClient)> {
    let target = &site.target;
    let found = match &site.profile {
        Some(profile) => find_of_profile(target, profile, &site.reach())?,
        None => find(Some(target), &[], &site.reach())?,
    };
    match found.target {
        Target::Url(url) => {
            Ok((url, KnownClient { client: found.client, scopes: found.scopes, fleet: found.fleet }))
        }
        _ => Err(CliError::usage(format!(
            "`{target}` is a command: it takes credentials from its environment"
        ))
        .hint("sign-in is for servers with a URL only")),
    }
}

/// Returns the name under which the tokens of the operator's account are stored.
fn account_of(site: &SignInServerArgs) -> String {
    site.profile.as_deref().map(profile_account).unwrap_or_default()
}

fn failed(error: &FlowError) -> CliError {
    let code = match error {
        FlowError::Fetch { .. } => FailureCode::Unreachable,
        FlowError::Store(_) => FailureCode::Usage,
        _ => FailureCode::Unauthorized,
    };
    CliError::new(code, error_chain(error))
}

fn report(url: &UrlTarget, tokens: &TokenSet, output: CliOutput) {
    if output.json {
        output.value(&TokenSummary::of(&url.to_string(), tokens).described());
    } else {
        output
            .say(format_args!("signed in to {url}  {}", paint(DIM, TokenSummary::of("", tokens).summary())));
    }
}

/// Public facts about tokens, without the tokens themselves.
struct TokenSummary<'a> {
    url: &'a str,
    /// True if the server's URL has a query, which is not shown.
    has_query: bool,
    /// Account that the tokens belong to; empty for the user who runs the program.
    account: &'a str,
    issuer: &'a str,
    client_id: &'a str,
    granted: &'a Scopes,
    expires_at: Option<u64>,
    renews: bool,
}

impl<'a> From<&'a StoredTokens> for TokenSummary<'a> {
    fn from(kept: &'a StoredTokens) -> Self {
        Self {
            url: &kept.endpoint,
            has_query: kept.has_query,
            account: &kept.account,
            issuer: kept.issuer.as_str(),
            client_id: kept.client_id.as_str(),
            granted: &kept.granted,
            expires_at: kept.expires_at,
            renews: kept.renews,
        }
    }
}

impl<'a> TokenSummary<'a> {
    fn of(url: &'a str, tokens: &'a TokenSet) -> Self {
        Self {
            url,
            has_query: false,
            account: "",
            issuer: tokens.issuer.as_str(),
            client_id: tokens.client.id.as_str(),
            granted: &tokens.granted,
            expires_at: tokens.expires_at,
            renews: tokens.refresh.is_some(),
        }
    }

    /// The user's name at the host that they use the server through.
    fn user(&self) -> Option<&'a str> {
        Some(self.account).filter(|account| !account.is_empty()).map(|account| {
            // Accounts are named `ISSUER user NAME`.
            let (_, user) = account.split_once(" user ").unwrap_or(("", account));
            user
        })
    }

    fn described(&self) -> Value {
        let mut described = json!({
            "url": self.url,
            "issuer": self.issuer,
            "clientId": self.client_id,
            "scopes": self.granted.iter().collect::<Vec<_>>(),
            "expiresAt": self.expires_at,
            "renews": self.renews,
        });
        if self.has_query {
            described["hasQuery"] = true.into();
        }
        if !self.account.is_empty() {
            described["principal"] = self.account.into();
        }
        described
    }

    fn summary(&self) -> String {
        let mut text = format!("by {}", printable(self.issuer));
        if !self.granted.is_empty() {
            text.push_str(&format!(" for {}", printable(&self.granted.to_string())));
        }
        let left = self.expires_at.map(|end| end.saturating_sub(UnixClock::system().now()));
        text.push_str(match (self.renews, left) {
            (true, _) => ", refreshed automatically",
            (false, Some(0)) => ", expired",
            (false, _) => "",
        });
        if let (false, Some(left @ 1..)) = (self.renews, left) {
            text.push_str(&format!(", for {} min", left.div_ceil(60)));
        }
        text
    }
}
