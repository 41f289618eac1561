use super::*;

/// Made by version 0.1.0, whose format this was.
const OLD_HASH: &str = "pbkdf2-sha256$600000$KBynU-HgvG2_RRtk2JgHGdIuUOAhN5u3d4eyTMmJMos\
                        $nNAPZWVF7cd2_8HaqsyD8IPhgD3Ww_DOT9Sf2WnLsqQ";
/// Made by the reference implementation: `argon2 "salt of the test" -id -t 2 -k 19456 -p 1 -e`.
const REFERENCE_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c2FsdCBvZiB0aGUgdGVzdA$8AuVhKmJqTavu5sT1YIWuXxC/WNA/pwMhOrfKzM4MEg";
const SALT_AND_OUTPUT: &str = "c2FsdCBvZiB0aGUgdGVzdA$8AuVhKmJqTavu5sT1YIWuXxC/WNA/pwMhOrfKzM4MEg";

fn error(text: &str) -> String {
    PasswordHash::parse(text).expect_err(text).to_string()
}

#[test]
fn a_new_hash_is_argon2id_as_a_phc_string() {
    let hash = PasswordHash::hash_password("correct horse");
    assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.expose());
    let read = PasswordHash::parse(hash.expose()).unwrap();
    assert!(read.matches_password("correct horse"));
    assert!(!read.matches_password("correct horse ") && !read.matches_password(""));
    assert!(!format!("{hash:?}").contains("argon2"));
    assert_ne!(PasswordHash::hash_password("correct horse").expose(), hash.expose(), "the salt is random");
}

#[test]
fn a_password_of_the_configuration_has_one_hash() {
    let one = || PasswordHash::hash_user_password("correct horse", "ann", "https://as.example");
    let hash = one();
    assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.expose());
    assert!(hash.matches_password("correct horse") && hash.expose() == one().expose());
    for other in [
        PasswordHash::hash_user_password("correct horse", "bob", "https://as.example"),
        PasswordHash::hash_user_password("correct horse", "ann", "https://other.example"),
        PasswordHash::hash_user_password("correct horse!", "ann", "https://as.example"),
    ] {
        assert_ne!(hash.expose(), other.expose());
    }
}

#[test]
fn hashes_of_older_configurations_and_of_other_programs_are_verified() {
    for text in [OLD_HASH, REFERENCE_HASH] {
        let hash = PasswordHash::parse(text).unwrap();
        assert!(hash.matches_password("correct horse") && !hash.matches_password("correct house"), "{text}");
        assert_eq!(hash.expose(), text);
    }
}

#[test]
fn a_hash_that_would_exhaust_the_server_is_rejected_with_the_limit() {
    for (parameters, said) in [
        ("m=4194304,t=2,p=1", "m is 4194304, and at most 65536 is allowed"),
        ("m=4294967295,t=4294967295,p=1", "m is 4294967295, and at most 65536 is allowed"),
        ("m=19456,t=11,p=1", "t is 11, and at most 10 is allowed"),
        ("m=19456,t=2,p=17", "p is 17, and at most 16 is allowed"),
    ] {
        let error = error(&format!("$argon2id$v=19${parameters}${SALT_AND_OUTPUT}"));
        assert!(error.contains(said) && error.contains("hash the password again"), "{error}");
    }
    let old = OLD_HASH.replace("600000", "10000001");
    assert!(error(&old).contains("rounds is 10000001, and at most 10000000 is allowed"));
}

#[test]
fn a_hash_that_is_guessed_quickly_is_rejected() {
    for parameters in
        ["m=8,t=1,p=1", "m=7167,t=10,p=1", "m=7168,t=4,p=1", "m=19456,t=1,p=1", "m=19456,t=2,p=0"]
    {
        let text = format!("$argon2id$v=19${parameters}${SALT_AND_OUTPUT}");
        assert_eq!(PasswordHash::parse(&text).unwrap_err(), InvalidPasswordHash::TooWeak, "{text}");
    }
    let short = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdCBvZiB0aGUgdGVzdA$8AuVhKmJqTavu5sT1YIW";
    assert_eq!(PasswordHash::parse(short).unwrap_err(), InvalidPasswordHash::TooWeak);
    let old = OLD_HASH.replace("600000", "99999");
    assert_eq!(PasswordHash::parse(&old).unwrap_err(), InvalidPasswordHash::TooWeak);
    // All that OWASP recommends, and the second recommendation of RFC 9106.
    for parameters in [
        "m=47104,t=1,p=1",
        "m=19456,t=2,p=1",
        "m=12288,t=3,p=1",
        "m=9216,t=4,p=1",
        "m=7168,t=5,p=1",
        "m=65536,t=3,p=4",
    ] {
        let text = format!("$argon2id$v=19${parameters}${SALT_AND_OUTPUT}");
        assert!(PasswordHash::parse(&text).is_ok(), "{text}");
    }
}

#[test]
fn text_that_is_no_supported_hash_is_rejected() {
    for text in [
        "",
        "secret",
        "pbkdf2-sha256$600000$a",
        "pbkdf2-sha256$600000$a$b",
        "pbkdf2-sha256$0$a$nNAPZWVF7cd2_8HaqsyD8IPhgD3Ww_DOT9Sf2WnLsqQ",
        "$argon2id$v=19$m=19456,t=2,p=1",
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdCBvZiB0aGUgdGVzdA",
        &format!("$argon2id$v=19${SALT_AND_OUTPUT}"),
        &format!("$argon2id$v=19$m=19456,t=2${SALT_AND_OUTPUT}"),
        &format!("$argon2id$v=19$m=19456,t=2,p=1,keyid=AAAA${SALT_AND_OUTPUT}"),
        &format!("{REFERENCE_HASH}$x"),
        &format!("{OLD_HASH}$x"),
    ] {
        assert_eq!(PasswordHash::parse(text).unwrap_err(), InvalidPasswordHash::Format, "{text}");
    }
    for text in [
        &format!("$argon2i$v=19$m=19456,t=2,p=1${SALT_AND_OUTPUT}"),
        &format!("$argon2id$v=16$m=19456,t=2,p=1${SALT_AND_OUTPUT}"),
        &format!("$argon2id$m=19456,t=2,p=1${SALT_AND_OUTPUT}"),
        "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
        "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E",
    ] {
        assert!(PasswordHash::looks_like_hash(text), "{text}");
        assert_eq!(PasswordHash::parse(text).unwrap_err(), InvalidPasswordHash::Algorithm, "{text}");
    }
    assert!(!PasswordHash::looks_like_hash("correct horse") && !PasswordHash::looks_like_hash("$2 a day"));
}

#[test]
fn a_decoy_costs_as_much_as_its_model_and_is_nobodys() {
    let costs = |hash: &PasswordHash| match DecodedHash::decode(hash.expose()).unwrap() {
        DecodedHash::Argon2id(hash) => {
            let lengths = [hash.salt.unwrap().len(), hash.hash.unwrap().len()];
            format!("{} {:?} {} {lengths:?}", hash.algorithm, hash.version, hash.params)
        }
        DecodedHash::Pbkdf2 { rounds, .. } => format!("pbkdf2 {rounds}"),
    };
    for text in [OLD_HASH, REFERENCE_HASH] {
        let model = PasswordHash::parse(text).unwrap();
        let decoy = model.decoy();
        assert!(decoy.expose() != text && !decoy.matches_password("correct horse"));
        assert_eq!(costs(&decoy), costs(&model));
    }
}
