//! Under which id the server knows us: a given one, the URL of our metadata, one it gave us before, a new one.

use http::StatusCode;
use secrecy::SecretString;
use url::Url;

use super::authorize::Pending;
use super::device::{self, Device};
use super::server::Found;
use super::{Effect, Facts, Input, Next, State, redeem, usable};
use crate::client::credentials::{Client, ClientAuth};
use crate::client::error::FlowError;
use crate::client::settings::{GivenClient, Grant, Registration};
use crate::exchange::without_query;
use crate::metadata::{ApplicationType, ClientMetadata, Registered, is_loopback};
use crate::{ErrorBody, ErrorCode, Issuer, RedirectUri, Request, Response, Scopes};

const WHAT: &str = "the registration endpoint";
/// Where the answers to a client would come to which has none: servers want to know.
const NOWHERE: &str = "http://127.0.0.1/callback";

/// Finds out under which id the server knows us, and where its answers come to.
#[derive(Debug)]
pub(super) struct Register {
    found: Found,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Whether the server knows us is being looked up.
    Recall,
    /// A client is at hand; where its answers come to is to be said.
    Known(Client),
    /// The server may know us, if answers can come to where they came before.
    Listen(Option<Box<Registration>>),
    /// The server was asked to register us.
    Asked { url: Url, redirect_uri: RedirectUri, method: Option<&'static str>, again: bool },
    /// What it said is being kept.
    Keep(Client, RedirectUri),
    /// Which server a given client belongs to is being kept.
    Bind(Client),
}

impl Register {
    pub(super) fn begin(facts: &mut Facts, found: Found) -> Next {
        if let Some(given) = &facts.settings.given {
            let client = given_client(given, facts.cause.bound.as_ref(), &found)?;
            if is_unbound(facts) {
                return Ok(Self::bind(found, client));
            }
            return Self::listen(facts, found, client);
        }
        if found.server.client_id_metadata_document_supported == Some(true)
            && let Some(id) = &facts.settings.metadata_url
            && let Some(auth) = document_auth(facts, &found)
        {
            let client = Client::new(id.clone(), auth);
            return Self::listen(facts, found, client);
        }
        let effect = Effect::Recall(found.server.issuer.clone());
        Ok((State::Register(Box::new(Self { found, stage: Stage::Recall })), effect))
    }

    /// A given client belongs to the first server it meets, whatever it is to ask there for.
    pub(super) fn begin_unattended(facts: &mut Facts, found: Found) -> Next {
        if let Some(given) = &facts.settings.given
            && is_unbound(facts)
        {
            let client = given_client(given, None, &found)?;
            return Ok(Self::bind(found, client));
        }
        redeem::unattended(facts, found)
    }

    fn bind(found: Found, client: Client) -> (State, Effect) {
        let registration = Registration {
            issuer: found.server.issuer.clone(),
            client: Client::new(client.id.clone(), ClientAuth::None),
            redirect_uri: None,
            expires_at: None,
        };
        let stage = Stage::Bind(client);
        (State::Register(Box::new(Self { found, stage })), Effect::Keep(Box::new(registration)))
    }

    fn listen(facts: &mut Facts, found: Found, client: Client) -> Next {
        let preferred = facts.settings.redirect_uri.clone();
        Self { found, stage: Stage::Known(client) }.await_answers(facts, preferred)
    }

    /// Says where answers are to come, where any come: what becomes of a code is asked for.
    fn await_answers(self, facts: &mut Facts, preferred: Option<RedirectUri>) -> Next {
        if matches!(facts.settings.grant, Grant::Device) {
            let nowhere = RedirectUri::new(NOWHERE).map_err(|_| FlowError::OutOfOrder)?;
            return self.handle(facts, Input::Listening(nowhere));
        }
        Ok((State::Register(Box::new(self)), Effect::Listen { preferred }))
    }

    /// The client is known, and where answers come to.
    fn ask_person(facts: &mut Facts, found: &Found, client: Client, redirect_uri: RedirectUri) -> Next {
        match facts.settings.grant {
            Grant::Device => Device::begin(facts, found, client),
            _ => Pending::begin(facts, found, client, redirect_uri),
        }
    }

    pub(super) fn server(&self) -> Option<(&Issuer, Url)> {
        self.found.named()
    }

    pub(super) fn handle(self, facts: &mut Facts, input: Input) -> Next {
        let Self { found, stage } = self;
        match (stage, input) {
            (Stage::Recall, Input::Registration(known)) => {
                let usable = |known: &Registration| {
                    known.issuer == found.server.issuer
                        && known.redirect_uri.is_some()
                        && known.expires_at.is_none_or(|end| facts.now < end)
                };
                let known = known.filter(|known| usable(known));
                let before = known.as_ref().and_then(|known| known.redirect_uri.clone());
                let preferred = facts.settings.redirect_uri.clone().or(before);
                Self { found, stage: Stage::Listen(known) }.await_answers(facts, preferred)
            }
            (Stage::Known(client), Input::Listening(redirect_uri)) => {
                Self::ask_person(facts, &found, client, redirect_uri)
            }
            (Stage::Listen(Some(known)), Input::Listening(redirect_uri))
                if known.redirect_uri.as_ref().is_some_and(|before| same_place(before, &redirect_uri)) =>
            {
                let Registration { client, redirect_uri: before, .. } = *known;
                Self::ask_person(facts, &found, client, before.unwrap_or(redirect_uri))
            }
            (Stage::Listen(_), Input::Listening(redirect_uri)) => {
                Self::ask(facts, found, redirect_uri, false)
            }
            (Stage::Asked { url, redirect_uri, method, again }, Input::Response(response)) => {
                let response = usable(WHAT, &url, response)?;
                Self::answered(facts, found, &url, redirect_uri, method, again, &response)
            }
            (Stage::Keep(client, redirect_uri), Input::Kept) => {
                Self::ask_person(facts, &found, client, redirect_uri)
            }
            (Stage::Bind(client), Input::Kept) => match facts.settings.grant {
                Grant::Code | Grant::Device => Self::listen(facts, found, client),
                _ => redeem::unattended(facts, found),
            },
            _ => Err(FlowError::OutOfOrder),
        }
    }

    /// Asks the server to register us (RFC 7591).
    fn ask(facts: &Facts, found: Found, redirect_uri: RedirectUri, again: bool) -> Next {
        let Some(url) = found.server.registration_url()? else {
            return Err(FlowError::NeedsClientId(found.server.issuer));
        };
        let offered = found.server.token_endpoint_auth_methods_supported.as_deref();
        let method = offered.and_then(|offered| {
            let known = ["none", "client_secret_basic", "client_secret_post"];
            known.into_iter().find(|known| offered.iter().any(|method| method == known))
        });
        // A server may hold us to what we register for, and operations may want more than the first one did: it is
        // registered for all that the server has, and asked for what is needed.
        let all = found.server.scopes_supported.iter().flatten().map(String::as_str);
        let scopes: Scopes = found.scopes.iter().chain(all).collect();
        let metadata = metadata(facts, &redirect_uri, method, &scopes);
        let body = serde_json::to_vec(&metadata).map_err(|_| FlowError::OutOfOrder)?;
        let request = Request::json(url.clone(), body);
        let stage = Stage::Asked { url, redirect_uri, method, again };
        Ok((State::Register(Box::new(Self { found, stage })), Effect::Fetch(request)))
    }

    fn answered(
        facts: &Facts,
        found: Found,
        url: &Url,
        redirect_uri: RedirectUri,
        method: Option<&'static str>,
        again: bool,
        response: &Response,
    ) -> Next {
        let issuer = found.server.issuer.clone();
        if !matches!(response.status, StatusCode::CREATED | StatusCode::OK) {
            let body = response.decode::<ErrorBody>();
            if let Ok(body) = &body
                && matches!(body.error, ErrorCode::InvalidRedirectUri | ErrorCode::InvalidClientMetadata)
                && !again
                && let Some(localhost) = with_localhost(&redirect_uri)
            {
                return Self::ask(facts, found, localhost, true);
            }
            let why = match body {
                Ok(body) => body.to_string(),
                Err(_) => format!("it answered with status {}", response.status),
            };
            return Err(FlowError::Registration { issuer, why });
        }
        let registered: Registered = response.decode().map_err(|error| FlowError::Malformed {
            what: WHAT,
            url: without_query(url),
            why: error.to_string(),
        })?;
        let secret = registered.client_secret.map(SecretString::from);
        // What the response says wins over what was asked for.
        let method = registered.metadata.token_endpoint_auth_method.as_deref().or(method);
        let auth = match (method, &secret) {
            (Some(method), _) => ClientAuth::of_method(method, secret.as_ref()),
            (None, Some(secret)) => Some(ClientAuth::Basic(secret.clone())),
            (None, None) => Some(ClientAuth::None),
        };
        let Some(auth) = auth else {
            let why = format!(
                "it was registered for {}, without what that needs",
                crate::shown(method.unwrap_or_default())
            );
            return Err(FlowError::ClientAuth { issuer, why });
        };
        let client = Client::new(registered.client_id, auth);
        let registration = Registration {
            issuer,
            client: client.clone(),
            redirect_uri: Some(redirect_uri.clone()),
            expires_at: registered.client_secret_expires_at.filter(|end| *end > 0),
        };
        let stage = Stage::Keep(client, redirect_uri);
        Ok((State::Register(Box::new(Self { found, stage })), Effect::Keep(Box::new(registration))))
    }
}

fn is_unbound(facts: &Facts) -> bool {
    let given = facts.settings.given.as_ref();
    given.is_some_and(|given| given.issuer.is_none()) && facts.cause.bound.is_none()
}

/// The client that was given, if it belongs to this server, and how it shows who it is.
pub(super) fn given_client(
    given: &GivenClient,
    bound: Option<&Issuer>,
    found: &Found,
) -> Result<Client, FlowError> {
    let now = &found.server.issuer;
    if let Some(registered) = given.issuer.as_ref().or(bound)
        && registered != now
    {
        return Err(FlowError::OtherIssuer { registered: registered.clone(), now: now.clone() });
    }
    let offered = found.server.token_endpoint_auth_methods_supported.as_deref();
    let auth = given.auth.clone().or_else(|| ClientAuth::choose(offered, given.secret.as_ref()));
    let auth = auth.ok_or_else(|| FlowError::ClientAuth {
        issuer: now.clone(),
        why: format!("it takes {}", crate::shown(&offered.unwrap_or_default().join(", "))),
    })?;
    Ok(Client::new(given.id.clone(), auth))
}

/// How the client of our document shows who it is; none where the server does not take what the document says.
fn document_auth(facts: &Facts, found: &Found) -> Option<ClientAuth> {
    let Some(key) = &facts.settings.metadata_key else { return Some(ClientAuth::None) };
    let lists = |list: Option<&Vec<String>>, wanted: &str| {
        list.is_some_and(|list| list.iter().any(|one| one == wanted))
    };
    let algorithms = found.server.token_endpoint_auth_signing_alg_values_supported.as_ref();
    let takes = lists(found.server.token_endpoint_auth_methods_supported.as_ref(), "private_key_jwt")
        && (algorithms.is_none() || lists(algorithms, &key.algorithm()));
    takes.then(|| ClientAuth::Key(key.clone()))
}

fn metadata(
    facts: &Facts,
    redirect_uri: &RedirectUri,
    method: Option<&'static str>,
    scopes: &Scopes,
) -> ClientMetadata {
    let settings = &facts.settings;
    let native = redirect_uri.url().is_none_or(|url| is_loopback(&url) || url.scheme() != "https");
    let (grant, response_types) = match settings.grant {
        Grant::Device => (device::GRANT, Vec::new()),
        _ => ("authorization_code", vec!["code".to_owned()]),
    };
    let mut grants = vec![grant.to_owned()];
    if settings.offline_access {
        grants.push("refresh_token".into());
    }
    ClientMetadata {
        client_name: Some(settings.client_name.clone()),
        client_uri: settings.client_uri.clone(),
        redirect_uris: vec![redirect_uri.clone()],
        grant_types: Some(grants),
        response_types: Some(response_types),
        token_endpoint_auth_method: method.map(str::to_owned),
        application_type: Some(if native { ApplicationType::Native } else { ApplicationType::Web }),
        scope: (!scopes.is_empty()).then(|| scopes.clone()),
        software_id: settings.software_id.clone(),
        software_version: settings.software_version.clone(),
        ..ClientMetadata::default()
    }
}

/// The same place under the name by which some servers know it.
fn with_localhost(redirect_uri: &RedirectUri) -> Option<RedirectUri> {
    let rest = redirect_uri.as_str().strip_prefix("http://127.0.0.1")?;
    RedirectUri::new(format!("http://localhost{rest}")).ok()
}

/// Whether answers to `before` arrive where we now listen.
fn same_place(before: &RedirectUri, now: &RedirectUri) -> bool {
    before == now || with_localhost(now).is_some_and(|now| *before == now)
}
