//! Selection of the client id: preregistered, the URL of the client metadata, registered earlier, or newly registered.

use hospes_auth::metadata::{ApplicationType, ClientInformation, ClientMetadata, is_loopback};
use hospes_auth::{
    ErrorBody, ErrorCode, FetchRequest, FetchResponse, Issuer, RedirectUri, Scopes, without_query,
};
use http::StatusCode;
use secrecy::SecretString;
use url::Url;

use super::authorize::PendingAuthorization;
use super::device::DeviceAuthorization;
use super::discovered_server::DiscoveredServer;
use super::effect::{FlowEffect, FlowInput};
use super::grant_types;
use super::step::{FlowContext, FlowStep, check_response, into_state};
use super::unattended::{self, UnattendedState};
use crate::credentials::{ClientAuth, ClientIdentity};
use crate::error::FlowError;
use crate::settings::{ClientRegistration, GrantType};

const REGISTRATION_ENDPOINT_NAME: &str = "the registration endpoint";
/// Redirect URI to register for clients without one, because servers require it.
const UNUSED_REDIRECT: &str = "http://127.0.0.1/callback";

/// Finds out under which id the server knows us, and where its answers come to.
#[derive(Debug)]
pub(super) struct RegisterClient {
    found: DiscoveredServer,
    stage: RegisterStage,
}

#[derive(Debug)]
enum RegisterStage {
    /// The known registration with the server is being looked up.
    Recall,
    /// The client is known; the redirect URI is still needed.
    Known(ClientIdentity),
    /// The server may know the client, if the earlier redirect URI can be used again.
    Listen(Option<Box<ClientRegistration>>),
    /// The server was asked to register us.
    Asked { url: Url, redirect_uri: RedirectUri, method: Option<&'static str>, again: bool },
    /// The registration response is being stored.
    Keep(ClientIdentity, RedirectUri),
    /// The server that a given client belongs to is being stored.
    Bind(ClientIdentity),
}

/// State of the registration, or of what follows.
pub(super) enum RegisterState {
    Register(Box<RegisterClient>),
    Pending(Box<PendingAuthorization>),
    Device(Box<DeviceAuthorization>),
    Unattended(UnattendedState),
}

impl From<Box<PendingAuthorization>> for RegisterState {
    fn from(state: Box<PendingAuthorization>) -> Self {
        Self::Pending(state)
    }
}

impl From<Box<DeviceAuthorization>> for RegisterState {
    fn from(state: Box<DeviceAuthorization>) -> Self {
        Self::Device(state)
    }
}

impl From<UnattendedState> for RegisterState {
    fn from(state: UnattendedState) -> Self {
        Self::Unattended(state)
    }
}

impl RegisterClient {
    pub(super) fn begin(facts: &mut FlowContext, found: DiscoveredServer) -> FlowStep<RegisterState> {
        // The order is that of AUTC-36: a given client, the published document, a registration.
        if let Some(given) = &facts.settings.given {
            let client = found.given_client(given, facts.cause.bound.as_ref())?;
            if is_unbound(facts) {
                return Ok(Self::bind(found, client));
            }
            return Self::listen(facts, found, client);
        }
        if found.server.client_id_metadata_document_supported == Some(true)
            && let Some(id) = &facts.settings.metadata_url
            && let Some(auth) = document_auth(facts, &found)
        {
            let client = ClientIdentity::new(id.clone(), auth);
            return Self::listen(facts, found, client);
        }
        let effect = FlowEffect::Recall(found.server.issuer.clone());
        Ok((RegisterState::Register(Box::new(Self { found, stage: RegisterStage::Recall })), effect))
    }

    /// Starts a flow without a user. A preregistered client belongs to the first server that it is used with.
    pub(super) fn begin_unattended(
        facts: &mut FlowContext,
        found: DiscoveredServer,
    ) -> FlowStep<RegisterState> {
        if let Some(given) = &facts.settings.given
            && is_unbound(facts)
        {
            let client = found.given_client(given, None)?;
            return Ok(Self::bind(found, client));
        }
        unattended::begin(facts, found).map(into_state)
    }

    fn bind(found: DiscoveredServer, client: ClientIdentity) -> (RegisterState, FlowEffect) {
        let registration = ClientRegistration {
            issuer: found.server.issuer.clone(),
            // The binding is about the issuer only. The secret stays in the settings and is not stored a
            // second time.
            client: ClientIdentity::new(client.id.clone(), ClientAuth::None),
            redirect_uri: None,
            expires_at: None,
        };
        let stage = RegisterStage::Bind(client);
        (RegisterState::Register(Box::new(Self { found, stage })), FlowEffect::Keep(Box::new(registration)))
    }

    fn listen(
        facts: &mut FlowContext,
        found: DiscoveredServer,
        client: ClientIdentity,
    ) -> FlowStep<RegisterState> {
        let preferred = facts.settings.redirect_uri.clone();
        Self { found, stage: RegisterStage::Known(client) }.listen_if_needed(facts, preferred)
    }

    /// Starts the listener for authorization responses. The device grant skips it, because it polls the token endpoint
    /// instead.
    fn listen_if_needed(
        self,
        facts: &mut FlowContext,
        preferred: Option<RedirectUri>,
    ) -> FlowStep<RegisterState> {
        if matches!(facts.settings.grant, GrantType::Device) {
            let nowhere = RedirectUri::new(UNUSED_REDIRECT).map_err(|_| FlowError::OutOfOrder)?;
            return self.handle(facts, FlowInput::Listening(nowhere));
        }
        Ok((RegisterState::Register(Box::new(self)), FlowEffect::Listen { preferred }))
    }

    /// Continues once the client and the redirect URI are known.
    fn ask_person(
        facts: &mut FlowContext,
        found: &DiscoveredServer,
        client: ClientIdentity,
        redirect_uri: RedirectUri,
    ) -> FlowStep<RegisterState> {
        match facts.settings.grant {
            GrantType::Device => DeviceAuthorization::begin(facts, found, client).map(into_state),
            _ => PendingAuthorization::begin(facts, found, client, redirect_uri).map(into_state),
        }
    }

    pub(super) fn server(&self) -> Option<(&Issuer, Url)> {
        self.found.issuer_and_token_endpoint()
    }

    pub(super) fn handle(self, facts: &mut FlowContext, input: FlowInput) -> FlowStep<RegisterState> {
        let Self { found, stage } = self;
        match (stage, input) {
            (RegisterStage::Recall, FlowInput::Registration(known)) => {
                // The record itself says whose it is: credentials never go to another server (AUTC-51).
                let usable = |known: &ClientRegistration| {
                    known.issuer == found.server.issuer
                        && known.redirect_uri.is_some()
                        && known.expires_at.is_none_or(|end| facts.now < end)
                };
                let known = known.filter(|known| usable(known));
                let before = known.as_ref().and_then(|known| known.redirect_uri.clone());
                let preferred = facts.settings.redirect_uri.clone().or(before);
                Self { found, stage: RegisterStage::Listen(known) }.listen_if_needed(facts, preferred)
            }
            (RegisterStage::Known(client), FlowInput::Listening(redirect_uri)) => {
                Self::ask_person(facts, &found, client, redirect_uri)
            }
            (RegisterStage::Listen(Some(known)), FlowInput::Listening(redirect_uri))
                if known
                    .redirect_uri
                    .as_ref()
                    .is_some_and(|before| is_same_listener(before, &redirect_uri)) =>
            {
                // The URI as it was registered is sent: servers compare it with that, not with what the
                // listener calls itself.
                let ClientRegistration { client, redirect_uri: before, .. } = *known;
                Self::ask_person(facts, &found, client, before.unwrap_or(redirect_uri))
            }
            (RegisterStage::Listen(_), FlowInput::Listening(redirect_uri)) => {
                Self::send_registration(facts, found, redirect_uri, false)
            }
            (RegisterStage::Asked { url, redirect_uri, method, again }, FlowInput::Response(response)) => {
                let response = check_response(REGISTRATION_ENDPOINT_NAME, &url, response)?;
                Self::handle_registration_response(facts, found, &url, redirect_uri, method, again, &response)
            }
            (RegisterStage::Keep(client, redirect_uri), FlowInput::Kept) => {
                Self::ask_person(facts, &found, client, redirect_uri)
            }
            (RegisterStage::Bind(client), FlowInput::Kept) => match facts.settings.grant {
                GrantType::Code | GrantType::Device => Self::listen(facts, found, client),
                _ => unattended::begin(facts, found).map(into_state),
            },
            _ => Err(FlowError::OutOfOrder),
        }
    }

    /// Asks the server to register us (RFC 7591).
    fn send_registration(
        facts: &FlowContext,
        found: DiscoveredServer,
        redirect_uri: RedirectUri,
        again: bool,
    ) -> FlowStep<RegisterState> {
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
        let request = FetchRequest::json(url.clone(), body);
        let stage = RegisterStage::Asked { url, redirect_uri, method, again };
        Ok((RegisterState::Register(Box::new(Self { found, stage })), FlowEffect::Fetch(request)))
    }

    fn handle_registration_response(
        facts: &FlowContext,
        found: DiscoveredServer,
        url: &Url,
        redirect_uri: RedirectUri,
        method: Option<&'static str>,
        again: bool,
        response: &FetchResponse,
    ) -> FlowStep<RegisterState> {
        let issuer = found.server.issuer.clone();
        // RFC 7591, section 3.2.1, wants 201. Servers that answer 200 have registered the client as well.
        if !matches!(response.status, StatusCode::CREATED | StatusCode::OK) {
            let body = response.decode::<ErrorBody>();
            if let Ok(body) = &body
                && matches!(body.error, ErrorCode::InvalidRedirectUri | ErrorCode::InvalidClientMetadata)
                && !again
                && let Some(localhost) = with_localhost(&redirect_uri)
            {
                return Self::send_registration(facts, found, localhost, true);
            }
            let why = match body {
                Ok(body) => body.to_string(),
                Err(_) => format!("the registration endpoint returned status {}", response.status),
            };
            return Err(FlowError::Registration { issuer, why });
        }
        let registered: ClientInformation = response.decode().map_err(|error| FlowError::Malformed {
            what: REGISTRATION_ENDPOINT_NAME,
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
                "it was registered with the authentication method {}, but without the credentials for it",
                hospes_auth::shown(method.unwrap_or_default())
            );
            return Err(FlowError::ClientAuth { issuer, why });
        };
        let client = ClientIdentity::new(registered.client_id, auth);
        let registration = ClientRegistration {
            issuer,
            client: client.clone(),
            redirect_uri: Some(redirect_uri.clone()),
            // Zero means that the secret does not expire (RFC 7591, section 3.2.1).
            expires_at: registered.client_secret_expires_at.filter(|end| *end > 0),
        };
        let stage = RegisterStage::Keep(client, redirect_uri);
        Ok((
            RegisterState::Register(Box::new(Self { found, stage })),
            FlowEffect::Keep(Box::new(registration)),
        ))
    }
}

fn is_unbound(facts: &FlowContext) -> bool {
    let given = facts.settings.given.as_ref();
    given.is_some_and(|given| given.issuer.is_none()) && facts.cause.bound.is_none()
}

/// Returns the authentication method of the client of the published metadata document. Returns `None` if the server
/// does not support the method in the document.
fn document_auth(facts: &FlowContext, found: &DiscoveredServer) -> Option<ClientAuth> {
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
    facts: &FlowContext,
    redirect_uri: &RedirectUri,
    method: Option<&'static str>,
    scopes: &Scopes,
) -> ClientMetadata {
    let settings = &facts.settings;
    // AUTC-53. A private scheme belongs to a native client, too.
    let native = redirect_uri.url().is_none_or(|url| is_loopback(&url) || url.scheme() != "https");
    let (grant, response_types) = match settings.grant {
        GrantType::Device => (grant_types::DEVICE_CODE, Vec::new()),
        _ => (grant_types::AUTHORIZATION_CODE, vec!["code".to_owned()]),
    };
    let mut grants = vec![grant.to_owned()];
    // A server may refuse to renew for clients that have not announced it (AUTC-56).
    if settings.offline_access {
        grants.push("refresh_token".into());
    }
    let mut metadata = ClientMetadata::default();
    metadata.client_name = Some(settings.client_name.clone());
    metadata.client_uri = settings.client_uri.clone();
    metadata.redirect_uris = vec![redirect_uri.clone()];
    metadata.grant_types = Some(grants);
    metadata.response_types = Some(response_types);
    metadata.token_endpoint_auth_method = method.map(str::to_owned);
    metadata.application_type = Some(if native { ApplicationType::Native } else { ApplicationType::Web });
    metadata.scope = (!scopes.is_empty()).then(|| scopes.clone());
    metadata.software_id = settings.software_id.clone();
    metadata.software_version = settings.software_version.clone();
    metadata
}

/// Returns the same URI with the host `localhost`, which some servers expect.
fn with_localhost(redirect_uri: &RedirectUri) -> Option<RedirectUri> {
    let rest = redirect_uri.as_str().strip_prefix("http://127.0.0.1")?;
    RedirectUri::new(format!("http://localhost{rest}")).ok()
}

/// Returns true if responses to `before` arrive at the current listener.
fn is_same_listener(before: &RedirectUri, now: &RedirectUri) -> bool {
    before == now || with_localhost(now).is_some_and(|now| *before == now)
}
