//! The table `[auth]`.

use super::*;
use crate::config::{AllowedUsers, AuthKeys, DpopRequirement};

/// A sign-in at another provider requires a list of admitted users and no contradicting settings.
#[test]
fn a_provider_is_read_whole_or_not_at_all() {
    let text = "[auth]\nbase_url = 'https://m.example'\n[auth.provider]\nissuer = 'https://login.example'\n\
        client_id = 'hospes'\nclient_secret = 'hunter2'\nscopes = ['openid', 'email']\n\
        allow = { email = ['ann@example.org', '@example.com'], level = 3 }\nparameters = { access_type = 'offline' }\n";
    let config = loader().parse("h.toml", text).unwrap();
    let auth = config.auth.unwrap();
    assert!(!format!("{auth:?}").contains("hunter2"), "{auth:?}");
    let provider = auth.provider.unwrap();
    assert_eq!((&*provider.issuer, &*provider.client_id), ("https://login.example", "hospes"));
    assert_eq!(provider.client_secret.unwrap().reveal(), "hunter2");
    assert_eq!(provider.scopes, ["openid", "email"]);
    assert_eq!(provider.parameters, [("access_type".to_owned(), "offline".to_owned())]);
    let AllowedUsers::Claims(allow) = provider.allow else { panic!("claims") };
    assert_eq!(allow[0], ("email".to_owned(), vec!["ann@example.org".to_owned(), "@example.com".to_owned()]));
    assert_eq!(allow[1], ("level".to_owned(), vec!["3".to_owned()]));
    let everybody = text.replace("allow = {", "allow = 'everybody'\n#");
    assert_eq!(
        loader().parse("h.toml", &everybody).unwrap().auth.unwrap().provider.unwrap().allow,
        AllowedUsers::Everybody
    );

    for (wrong, right, said) in [
        ("allow = {", "#", "auth.provider.allow"),
        ("allow = {", "allow = {}\n#", "auth.provider.allow"),
        ("allow = {", "allow = 'all'\n#", "everybody"),
        ("client_id =", "#", "auth.provider.client_id"),
        ("issuer =", "#", "auth.provider.issuer"),
        ("scopes =", "scope =", "did you mean `scopes`"),
        ("scopes =", "key = 'short'\nscopes =", "at least 32 random characters"),
        ("[auth.provider]", "users = { ann = 'x' }\n[auth.provider]", "`auth.users`, not both"),
        ("[auth.provider]", "issuer = 'https://o.example'\n[auth.provider]", "`auth.issuer`, not both"),
    ] {
        let message = errors("h.toml", &text.replace(wrong, right)).concat();
        assert!(message.contains(said) && !message.contains("hunter2"), "{right}: {message}");
    }
}

#[test]
fn applications_show_who_they_are_in_one_way() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h.toml");
    let set = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"a","y":"b","n":1,"b":true,"z":null}]}"#;
    std::fs::write(folder.path().join("robot.json"), set).unwrap();
    let text = "[auth]\nidentity_providers = ['https://idp.example']\ndpop = 'required'\ndpop_nonces = true\n\
        scopes = ['files']\n\
        [auth.clients.file]\njwks = '${file:robot.json}'\nenterprise_managed = true\n\
        [auth.clients.inline]\njwks = { keys = [{ kty = 'EC', x = 'a', n = 1, b = true }] }\n\
        [auth.clients.there]\njwks_uri = 'https://robot.example/keys?v=1'\nserves = ['https://m.example/mcp']\n\
        [auth.clients.secret]\nsecret = 'hunter2'\nserves = ['https://m.example/mcp']\n";
    let auth = loader().parse(&file, text).unwrap().auth.unwrap();
    assert_eq!((auth.dpop, auth.dpop_nonces), (Some(DpopRequirement::Required), true));
    assert_eq!(
        (&*auth.identity_providers, &*auth.scopes),
        (&["https://idp.example".to_owned()][..], &["files".to_owned()][..])
    );
    let client = |id: &str| auth.clients.iter().find(|client| client.id == id).unwrap();
    let whole = serde_json::from_str(set).unwrap();
    assert_eq!(client("file").keys, Some(AuthKeys::Set(whole)));
    assert!(client("file").enterprise_managed && !client("there").enterprise_managed);
    let inline = serde_json::json!({ "keys": [{ "kty": "EC", "x": "a", "n": 1, "b": true }] });
    assert_eq!(client("inline").keys, Some(AuthKeys::Set(inline)));
    assert_eq!(client("there").keys, Some(AuthKeys::At("https://robot.example/keys?v=1".to_owned())));
    assert_eq!(client("there").serves, ["https://m.example/mcp"]);
    let secret = client("secret");
    assert_eq!((secret.secret.as_ref().unwrap().reveal(), &secret.keys), ("hunter2", &None));

    for (wrong, right, said) in [
        ("enterprise_managed = true", "", "`enterprise_managed = true` under [auth.clients.NAME]"),
        ("identity_providers =", "#", "`auth.identity_providers` to be set too"),
        (
            "jwks = '${file:robot.json}'",
            "",
            "`auth.clients.file.enterprise_managed`: expected `secret`, `jwks`",
        ),
        ("jwks_uri = 'https://robot.example/keys?v=1'", "", "`auth.clients.there.serves`: expected `secret`"),
        (
            "jwks_uri =",
            "secret = 'x'\njwks_uri =",
            "secret or jwks_uri: an application authenticates in one way",
        ),
        ("jwks = '${file:robot.json}'", "jwks = 'x'", "a JSON Web Key Set"),
        ("jwks_uri =", "jwk_uri =", "did you mean `jwks_uri`"),
        ("'required'", "true", "expected `allowed` or `required`"),
        ("dpop =", "#", "`auth.dpop_nonces`: expected `auth.dpop` to be set too"),
        ("dpop =", "tokens = { ci = 'hunter2' }\ndpop =", "configured tokens are not bound to a key"),
        ("dpop =", "key = 'hunter2'\ndpop =", "at least 32 random characters"),
        (
            "dpop =",
            "audience = 'https://m.example'\ndpop =",
            "`auth.audience`: expected `auth.issuer` to be set too",
        ),
    ] {
        let text = text.replacen(wrong, right, 1);
        let errors = loader().parse(&file, &text).unwrap_err().to_string();
        assert!(errors.contains(said) && !errors.contains("hunter2"), "{right}: {errors}");
    }
}

/// Only a provider says in which groups somebody is.
#[test]
fn groups_are_those_of_a_provider() {
    let read = |text: &str| loader().parse("h.toml", text).map(|config| config.auth.unwrap().groups_claim);
    assert_eq!(read("[auth]\nissuer = 'https://login.example'\n").unwrap(), None);
    let of_issuer = read("[auth]\nissuer = 'https://login.example'\ngroups_claim = 'roles'\n");
    assert_eq!(of_issuer.unwrap().as_deref(), Some("roles"));
    let provider = "[auth.provider]\nissuer = 'https://l.example'\nclient_id = 'h'\nallow = 'everybody'\n";
    assert!(read(&format!("[auth]\ngroups_claim = 'roles'\n{provider}")).unwrap().is_some());
    let error = read("[auth]\nusers = { ann = 'x' }\ngroups_claim = 'roles'\n").unwrap_err().to_string();
    let said = "`auth.groups_claim`: expected `auth.provider` or `auth.issuer` to be set too";
    assert!(error.contains(said), "{error}");
}

/// Settings of the built-in authorization server are reported as errors if another server replaces it.
#[test]
fn what_would_say_nothing_is_a_mistake() {
    let issuer = "[auth]\nissuer = 'https://login.example'\nscopes = ['mcp']\naudience = 'https://m.example'\n\
        tokens = { ci = 'x' }\ndpop = 'allowed'\ndpop_nonces = true\n";
    assert!(loader().parse("h.toml", issuer).is_ok());
    for (key, said) in [
        ("users", "users = { ann = 'x' }"),
        ("registration", "registration = false"),
        ("resources", "resources = ['https://o.example/mcp']"),
        ("store", "store = 'auth.db'"),
        ("key", "key = '0123456789abcdef0123456789abcdef'"),
        ("clients", "[auth.clients.editor]\nredirect_uris = ['http://127.0.0.1/callback']"),
    ] {
        let errors = errors("h.toml", &format!("{issuer}{said}\n")).concat();
        assert!(errors.contains(&format!("`auth.issuer` or `auth.{key}`, not both")), "{errors}");
        assert!(errors.contains("the built-in authorization server"), "{errors}");
    }
}
