//! Keys of the table `[auth]`.

use super::ConfigKey as Key;
use super::KeyTable;
use super::KeyType::{Boolean, Names, OneOf, Path, Secret, Table, Text, Texts, Url};

pub(in crate::config) const AUTH: KeyTable = KeyTable {
    path: "auth",
    about: "Sign-in at the endpoint. With `issuer`, an external authorization server replaces the built-in one.",
    keys: &[
        Key::new(
            "enabled",
            Boolean,
            "",
            "Requires tokens. Default: true beyond loopback, or if another key of this table is set.",
        ),
        Key::new(
            "registration",
            Boolean,
            "true",
            "Applications may register at the built-in authorization server.",
        ),
        Key::new("base_url", Url, "", "Public address of the endpoint, for which tokens are issued."),
        Key::new("issuer", Url, "", "External authorization server, in place of the built-in one."),
        Key::new(
            "audience",
            Url,
            "",
            "Audience of the tokens of `issuer`; the endpoint's address by default.",
        ),
        Key::new(
            "users",
            Names,
            "",
            "Users who may sign in, each with a password or its Argon2id hash (a PHC string).",
        ),
        Key::new("tokens", Names, "", "Static tokens for machines, by the name of their holder."),
        Key::new(
            "key",
            Secret,
            "",
            "Key that seals secrets in `store`, of at least 32 characters; for hosts that share it.",
        ),
        Key::new(
            "trusted_proxies",
            Texts,
            "",
            "Addresses or networks of proxies whose word about the client's address is taken.",
        ),
        Key::new(
            "redirect_uris",
            Texts,
            "",
            "Further redirect URIs that applications may register, as exact strings.",
        ),
        Key::new(
            "groups_claim",
            Text,
            "",
            "Claim of `provider` or `issuer` that has the groups of users, for rules with `group`. Without it no groups are read.",
        ),
        Key::new("scopes", Texts, "", "Scopes that tokens must have besides those of the host."),
        Key::new("resources", Texts, "", "Further resources for which the built-in server issues tokens."),
        Key::new(
            "dpop_nonces",
            Boolean,
            "false",
            "Proofs of DPoP must carry a nonce of this host. Needs `dpop`.",
        ),
        Key::new("identity_providers", Texts, "", "Issuers whose assertions about users are accepted."),
        Key::new(
            "dpop",
            OneOf(&["allowed", "required"]),
            "",
            "Tokens bound to a key of the application: offered, or required of all.",
        ),
        Key::new(
            "store",
            Path,
            "",
            "Database of the built-in authorization server; `auth.db` of the state folder by default.",
        ),
        Key::new("provider", Table, "", "OpenID provider at which users sign in, in place of `users`."),
        Key::new("sign_in", Table, "", "With `issuer`: sign-in at the pages of this host."),
        Key::new("clients", Table, "", "Applications that need not register, each a table by its client ID."),
    ],
};

/// Container of the tables of applications.
pub(in crate::config) const AUTH_CLIENTS: KeyTable = KeyTable { path: "auth.clients", about: "", keys: &[] };

pub(in crate::config) const AUTH_CLIENT: KeyTable = KeyTable {
    path: "auth.clients.NAME",
    about: "An application that need not register. It has one of `secret`, `jwks` and `jwks_uri`, or none.",
    keys: &[
        Key::new("name", Text, "", "Name that users see."),
        Key::new("secret", Secret, "", "Client secret."),
        Key::new("jwks", Table, "", "Public keys: a JSON Web Key Set, or its text."),
        Key::new("jwks_uri", Text, "", "Address of the public keys."),
        Key::new(
            "enterprise_managed",
            Boolean,
            "false",
            "May present assertions of `identity_providers` in place of a user's consent.",
        ),
        Key::new("serves", Texts, "", "Resources whose tokens it may introspect."),
        Key::new("redirect_uris", Texts, "", "Redirect URIs."),
    ],
};

pub(in crate::config) const AUTH_PROVIDER: KeyTable = KeyTable {
    path: "auth.provider",
    about: "OpenID provider at which users sign in. Register `BASE_URL/upstream/callback` there.",
    keys: &[
        Key::new("issuer", Url, "", "Issuer of the provider; required."),
        Key::new("client_id", Text, "", "Client ID of this host; required."),
        Key::new("client_secret", Secret, "", "Client secret."),
        Key::new("scopes", Texts, "[\"openid\"]", "Scopes that are requested."),
        Key::new("parameters", Names, "", "Further parameters of the authorization request."),
        Key::new(
            "allow",
            Table,
            "",
            "Users who are admitted: `\"everybody\"`, or claims with their values; required.",
        ),
        Key::new("key", Secret, "", "Key that seals the provider's tokens; `auth.key` by default."),
    ],
};

pub(in crate::config) const AUTH_SIGN_IN: KeyTable = KeyTable {
    path: "auth.sign_in",
    about: "Sign-in of the users of `issuer` at the pages of this host, by OpenID Connect.",
    keys: &[
        Key::new("client_id", Text, "", "Client ID of this host; required."),
        Key::new("client_secret", Secret, "", "Client secret."),
        Key::new("scopes", Texts, "[\"openid\"]", "Scopes that are requested."),
        Key::new("parameters", Names, "", "Further parameters of the authorization request."),
    ],
};
