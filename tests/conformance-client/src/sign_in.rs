//! Scenarios with authorization: what the suite says of the client, and the person who agrees to everything.

use std::sync::Arc;

use hospes::client::UrlTarget;
use hospes::prelude::*;
use hospes_auth::egress::{EgressPolicy, GuardedClient};
use hospes_auth::{ClientId, Issuer, RedirectUri};
use hospes_oauth::{
    ClientAuth, ClientIdentity as AuthClient, ClientSigningKey, GrantType, IdentityProvider, OAuthClient,
    PreregisteredOAuthClient, UnattendedSignIn,
};
use serde_json::Value;

use crate::ScenarioRun;

/// URL of the published client metadata. The suite does not fetch it.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// Redirect URI of the client. Nothing listens there, because the suite's servers ask no user.
const REDIRECT_URI: &str = "http://127.0.0.1:41233/callback";

/// The suite's server, and what lets requests to it in.
pub(crate) fn target(run: &ScenarioRun) -> Result<UrlTarget> {
    let person = UnattendedSignIn::new(
        GuardedClient::new(EgressPolicy::public().allow_loopback()),
        RedirectUri::new(REDIRECT_URI)?,
    );
    let mut oauth = OAuthClient::builder(&run.url)?
        .sign_in(person)
        .metadata_url(ClientId::new(METADATA_URL)?)
        .settings(|settings| settings.client_name = "hospes-conformance-client".into());
    let said = |name: &str| run.context.get(name).and_then(Value::as_str);
    let need = |name: &str| {
        said(name).map(str::to_owned).ok_or_else(|| Error::msg(format!("the suite does not say {name}")))
    };
    if let Some(id) = said("client_id") {
        let mut client = PreregisteredOAuthClient::new(ClientId::new(id)?);
        if let Some(secret) = said("client_secret") {
            client = client.secret(secret.to_owned());
        }
        if let Some(issuer) = said("issuer") {
            client = client.issuer(Issuer::new(issuer)?);
        }
        if let Some(pem) = said("private_key_pem") {
            client =
                client.auth(ClientAuth::Key(ClientSigningKey::from_pem(pem, &need("signing_algorithm")?)?));
        }
        oauth = oauth.client(client);
    }
    oauth = match run.scenario.as_str() {
        "auth/client-credentials-basic" | "auth/client-credentials-jwt" => {
            oauth.grant(GrantType::ClientCredentials)
        }
        "auth/enterprise-managed-authorization" | "auth/cross-app-access-complete-flow" => {
            let client = AuthClient::new(ClientId::new(need("idp_client_id")?)?, ClientAuth::None);
            let endpoint = need("idp_token_endpoint")?.parse()?;
            oauth.grant(GrantType::Enterprise(IdentityProvider::new(endpoint, client, need("idp_id_token")?)))
        }
        "auth/wif-jwt-bearer" => oauth.grant(GrantType::Workload(need("valid_jwt")?.into())),
        _ => oauth,
    };
    Ok(Target::url(&run.url).authorizer(Arc::new(oauth.build())))
}
