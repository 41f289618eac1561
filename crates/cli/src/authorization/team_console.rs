//! Sign-in of people to the console, at the provider at which the users of the endpoint sign in.

use std::sync::Arc;

use hospes_auth::{ClientId, Issuer, Seed};
use hospes_console::{
    BegunTeamSignIn, ClaimedPerson, PrincipalName, TeamConsole, TeamLogout, TeamRole, TeamRoles, TeamSignIn,
    TeamSignInError, TeamSignInFuture, TeamSignInResponse,
};
use hospes_host::config::{AuthConfig, ConsoleTeamConfig};
use hospes_oauth_resource::TokenPrincipal;
use hospes_oauth_server::{
    PersonSignIn, PersonSignInError, ProviderResponse, SignInProvider, SignedInPerson, provider_user,
};
use hospes_store::StateStore;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};

use super::server::asked_there;
use super::state_clock;
use super::values::{fetcher, identifier, mistake};
use crate::exit::{CliError, CliResult};

/// Scopes that are requested if the configuration names none: names of people are part of `profile`.
const SCOPES: [&str; 2] = ["openid", "profile"];

/// Creates the settings of a console for a team. `own` is the public origin of the endpoint, which issues tokens if
/// `auth` names no issuer. Sessions are in `state`.
pub(super) fn team_console(
    config: &ConsoleTeamConfig,
    auth: &AuthConfig,
    own: Issuer,
    state: &StateStore,
) -> CliResult<TeamConsole> {
    let issuer = identifier("console.team.issuer", Issuer::new(config.issuer.as_str()))?;
    let principal = principal_name(&issuer, auth, own)?;
    let client = identifier("console.team.client_id", ClientId::new(config.client_id.as_str()))?;
    // It seals nothing here: what is stored is sealed with the key of the state.
    let key = Seed::from_system()
        .map_err(|error| CliError::usage("cannot read random bytes from the system").with_cause(&error))?
        .draw();
    let fetch = fetcher(&issuer);
    let provider = identifier("console.team", SignInProvider::new(issuer, client, &key, fetch))?;
    let default_scopes = SCOPES.map(str::to_owned);
    let scopes = if config.scopes.is_empty() { &default_scopes[..] } else { &config.scopes };
    let provider = asked_there("console.team", provider, config.client_secret.as_ref(), scopes, &[])?;
    let provider = provider.requiring_claim(config.groups_claim.as_str());
    let mut roles = Vec::new();
    for (name, groups) in &config.roles {
        roles.push((identifier::<TeamRole, _>("console.team.roles", name.parse())?, groups.clone()));
    }
    let records = state.console_sessions();
    let records = records
        .map_err(|error| CliError::usage("cannot store the sessions of the console").with_cause(&error))?;
    let sign_in = Arc::new(ProviderSignIn(Arc::new(PersonSignIn::new(provider).clock(state_clock(state)))));
    let roles = TeamRoles::new(config.groups_claim.as_str(), roles);
    TeamConsole::new(&config.public_url, roles, principal, sign_in, records)
        .map_err(|error| mistake("console.team.public_url", &error))
}

/// Returns how the calls of a person name their principal, from issuer and subject at the provider.
fn principal_name(issuer: &Issuer, auth: &AuthConfig, own: Issuer) -> CliResult<PrincipalName> {
    let is_same = |known: &str| Issuer::new(known).is_ok_and(|known| known == *issuer);
    // The provider's own tokens.
    if auth.issuer.as_deref().is_some_and(is_same) {
        let issuer = issuer.clone();
        return Ok(Arc::new(move |_, subject| TokenPrincipal::new(issuer.clone(), subject).name()));
    }
    // Tokens of this host, after a sign-in there.
    if auth.provider.as_ref().is_some_and(|provider| is_same(&provider.issuer)) {
        let issuer = issuer.clone();
        return Ok(Arc::new(move |_, subject| {
            TokenPrincipal::new(own.clone(), provider_user(&issuer, subject)).name()
        }));
    }
    Err(CliError::usage(format!(
        "`console.team.issuer`: the users of the endpoint do not sign in at {issuer}"
    ))
    .hint("set the same issuer as `issuer` under [auth.provider] or [auth]: otherwise no call is anybody's"))
}

/// The client of the provider, for the console.
struct ProviderSignIn(Arc<PersonSignIn>);

impl TeamSignIn for ProviderSignIn {
    fn begin<'a>(&'a self, redirect_uri: &'a str) -> TeamSignInFuture<'a, BegunTeamSignIn> {
        Box::pin(async move {
            let begun = self.0.begin(redirect_uri).await.map_err(sign_in_error)?;
            let verifier = begun.verifier.expose_secret().to_owned();
            Ok(BegunTeamSignIn { url: begun.url, state: begun.state, nonce: begun.nonce, verifier })
        })
    }

    fn finish<'a>(
        &'a self,
        response: &'a TeamSignInResponse,
        redirect_uri: &'a str,
        nonce: &'a str,
        verifier: &'a str,
    ) -> TeamSignInFuture<'a, ClaimedPerson> {
        Box::pin(async move {
            let TeamSignInResponse { iss, error, code, .. } = response;
            let response = ProviderResponse::new(iss.as_deref(), error.as_deref(), code.as_deref());
            let verifier = SecretString::from(verifier);
            let person = self.0.finish(response, redirect_uri, nonce, &verifier).await;
            person.map(claimed).map_err(sign_in_error)
        })
    }

    fn read_again<'a>(
        &'a self,
        refresh_token: &'a str,
        subject: &'a str,
    ) -> TeamSignInFuture<'a, ClaimedPerson> {
        Box::pin(async move {
            let token = SecretString::from(refresh_token);
            self.0.read_again(&token, subject).await.map(claimed).map_err(sign_in_error)
        })
    }

    fn check_logout<'a>(&'a self, token: &'a str) -> TeamSignInFuture<'a, TeamLogout> {
        Box::pin(async move {
            let logout = self.0.check_logout(token).await.map_err(sign_in_error)?;
            let until = i64::try_from(logout.until).ok().and_then(|until| Timestamp::from_second(until).ok());
            Ok(TeamLogout {
                issuer: logout.issuer.to_string(),
                subject: logout.subject,
                session: logout.session,
                id: logout.id,
                until: until.unwrap_or(Timestamp::MAX),
            })
        })
    }

    fn revoke(&self, refresh_token: String) {
        let sign_in = Arc::clone(&self.0);
        // Nobody waits for it: the token is not used again in any case.
        tokio::spawn(async move { sign_in.revoke(&refresh_token.into()).await });
    }
}

fn claimed(person: SignedInPerson) -> ClaimedPerson {
    ClaimedPerson {
        issuer: person.issuer.to_string(),
        subject: person.subject,
        claims: person.claims,
        refresh_token: person.refresh_token.map(|token| token.expose_secret().to_owned()),
    }
}

fn sign_in_error(error: PersonSignInError) -> TeamSignInError {
    match error {
        PersonSignInError::Denied => TeamSignInError::Denied,
        PersonSignInError::Refused(why) => TeamSignInError::Refused(why),
        other => TeamSignInError::Unreachable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use hospes_host::config::ConfigLoader;

    use super::*;

    fn names(auth: &str, issuer: &str) -> Option<String> {
        let config = ConfigLoader::new().parse("h.toml", auth).unwrap();
        let own = Issuer::new("https://mcp.example").unwrap();
        let issuer = Issuer::new(issuer).unwrap();
        let name = principal_name(&issuer, &config.auth.unwrap_or_default(), own).ok()?;
        Some(name("ignored", "ann"))
    }

    /// A person of another provider, and a client, must never have the name of this one's.
    #[test]
    fn a_person_has_the_name_that_calls_have() {
        const THERE: &str = "https://login.example";
        let provider = "[auth]\nbase_url = 'https://mcp.example'\n[auth.provider]\nissuer = 'https://login.example'\n\
                        client_id = 'h'\nallow = 'everybody'\n";
        let issuer = "[auth]\nbase_url = 'https://mcp.example'\nissuer = 'https://login.example'\n";
        let own = names(provider, THERE).unwrap();
        assert_eq!(own, "https://mcp.example user https://login.example ann");
        assert_eq!(names(issuer, THERE).unwrap(), "https://login.example user ann");
        for other in ["https://login.example.evil", "https://mcp.example", "https://login.example/tenant"] {
            assert_eq!((names(provider, other), names(issuer, other)), (None, None), "{other}");
        }
        assert_eq!(names("", THERE), None, "nobody signs in");
    }
}
