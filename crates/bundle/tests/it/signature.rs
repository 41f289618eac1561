//! Signatures, judged by us and by `openssl cms -verify`. We never accept what OpenSSL refuses; where we refuse what it
//! accepts, the case says why.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use hospes_bundle::signature::CertificateValidity;
use hospes_bundle::{Bundle, SignatureVerdict, TrustRoots};

use crate::reference::Reference;
use crate::zip::{Entry, bundle};

/// Folder with keys and certificates of OpenSSL.
struct Keys {
    home: tempfile::TempDir,
}

/// Content of a signature block, as the reference tool reads it.
fn split(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).rposition(|window| window == part);
    let footer = find(file, b"MCPB_SIG_END")?;
    let header = find(&file[..footer], b"MCPB_SIG_V1")?;
    let fields = &file[header + 11..];
    let length = u32::from_le_bytes(*fields.first_chunk().unwrap()) as usize;
    let end = (4 + length).min(fields.len());
    Some((&file[..header], &fields[4..end]))
}

/// Appends a signature block.
fn seal(content: &[u8], der: &[u8]) -> Vec<u8> {
    let length = (der.len() as u32).to_le_bytes();
    [content, b"MCPB_SIG_V1", &length, der, b"MCPB_SIG_END"].concat()
}

impl Keys {
    /// Returns `None` if OpenSSL is not installed; a failure with CI=true.
    fn new() -> Option<Self> {
        if Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "openssl is not installed");
            eprintln!("skipped: openssl is not installed");
            return None;
        }
        Some(Self { home: tempfile::tempdir().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn openssl(&self, args: &str) -> bool {
        let mut command = Command::new("openssl");
        command.args(args.split(' ')).current_dir(self.home.path()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    fn run(&self, args: &str) {
        assert!(self.openssl(args), "openssl {args}");
    }

    /// Makes a key with a self-signed certificate: `NAME.key` and `NAME.crt`.
    fn certificate(&self, name: &str, algorithm: &str) {
        self.run(&format!("req -x509 -newkey {algorithm} -nodes -keyout {name}.key -out {name}.crt -days 2 -subj /CN={name}/O=Tests"));
    }

    /// Makes a key with a certificate that another one signs.
    fn issued(&self, name: &str, issuer: &str, extensions: &str) {
        self.run(&format!(
            "req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        std::fs::write(self.path("extensions"), extensions).unwrap();
        self.run(&format!(
            "x509 -req -in {name}.csr -CA {issuer}.crt -CAkey {issuer}.key -CAcreateserial -days 2 -out {name}.crt -extfile extensions"
        ));
    }

    /// Signs with more options of `openssl cms -sign`.
    fn sign(&self, content: &[u8], name: &str, more: &str) -> Vec<u8> {
        std::fs::write(self.path("content"), content).unwrap();
        let more = if more.is_empty() { String::new() } else { format!(" {more}") };
        self.run(&format!(
            "cms -sign -binary -in content -signer {name}.crt -inkey {name}.key -outform DER -out signature{more}"
        ));
        std::fs::read(self.path("signature")).unwrap()
    }

    /// The oracle.
    fn accepts(&self, content: &[u8], der: &[u8]) -> bool {
        std::fs::write(self.path("content"), content).unwrap();
        std::fs::write(self.path("signature"), der).unwrap();
        self.openssl("cms -verify -binary -inform DER -in signature -content content -noverify -out verified")
    }

    fn roots(&self, names: &[&str]) -> TrustRoots {
        let der = names.iter().map(|name| {
            self.run(&format!("x509 -in {name}.crt -outform DER -out root"));
            std::fs::read(self.path("root")).unwrap()
        });
        let der: Vec<Vec<u8>> = der.collect();
        TrustRoots::from_der(der.iter().map(Vec::as_slice))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn judge_at(file: &[u8], roots: &TrustRoots, now: SystemTime) -> SignatureVerdict {
    Bundle::from_bytes(file.to_vec()).unwrap().signature(roots, now).unwrap()
}

fn judge(file: &[u8]) -> SignatureVerdict {
    judge_at(file, &TrustRoots::none(), SystemTime::now())
}

fn is_accepted(verdict: &SignatureVerdict) -> bool {
    matches!(verdict, SignatureVerdict::SelfSigned { .. } | SignatureVerdict::Signed { .. })
}

/// How our verdict differs from OpenSSL's.
#[derive(Clone, Copy, Debug)]
enum Differs {
    /// Not at all.
    Same,
    /// We refuse, for this reason, what OpenSSL accepts.
    Stricter(&'static str),
}

use Differs::{Same, Stricter};

#[test]
fn verdicts_are_those_of_openssl() {
    let Some(keys) = Keys::new() else { return };
    for (name, algorithm) in [
        ("rsa2048", "rsa:2048"),
        ("rsa3072", "rsa:3072"),
        ("rsa4096", "rsa:4096"),
        ("rsa1024", "rsa:1024"),
        ("p256", "ec -pkeyopt ec_paramgen_curve:P-256"),
        ("p384", "ec -pkeyopt ec_paramgen_curve:P-384"),
        ("p521", "ec -pkeyopt ec_paramgen_curve:P-521"),
        ("k256", "ec -pkeyopt ec_paramgen_curve:secp256k1"),
    ] {
        keys.certificate(name, algorithm);
    }
    keys.issued("leaf", "rsa2048", "basicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\n");
    let zip = bundle(&[Entry::new("x", b"content")]);
    let other = bundle(&[Entry::new("x", b"other content")]);
    let content = zip.as_slice();
    let sign = |name: &str, more: &str| keys.sign(content, name, more);
    let mut cases: Vec<(&str, Vec<u8>, bool, Differs)> = Vec::new();
    for name in ["rsa2048", "rsa3072", "rsa4096", "p256", "p384", "p521", "leaf"] {
        cases.push((name, seal(content, &sign(name, "")), true, Same));
    }
    for (name, digest) in [
        ("rsa2048", "sha384"),
        ("rsa2048", "sha512"),
        ("p256", "sha384"),
        ("p256", "sha512"),
        ("p384", "sha256"),
        ("p384", "sha512"),
        ("p521", "sha384"),
        ("p521", "sha512"),
    ] {
        cases.push(("another digest", seal(content, &sign(name, &format!("-md {digest}"))), true, Same));
    }
    let signature = sign("rsa2048", "-md sha256");
    let sealed = |der: &[u8]| seal(content, der);
    let one = sealed(&signature);
    cases.extend([
        ("no capabilities", sealed(&sign("rsa2048", "-nosmimecap")), true, Same),
        ("a key identifier", sealed(&sign("leaf", "-keyid")), true, Same),
        ("more certificates", sealed(&sign("leaf", "-certfile rsa2048.crt")), true, Same),
        ("a receipt of the signing certificate", sealed(&sign("rsa2048", "-cades")), true, Same),
        ("no certificate", sealed(&sign("rsa2048", "-nocerts")), false, Same),
        ("SHA-1", sealed(&sign("rsa2048", "-md sha1")), true, Stricter("uses the digest 1.3.14.3.2.26")),
        ("SHA-224", sealed(&sign("rsa2048", "-md sha224")), true, Stricter("uses the digest")),
        ("MD5", sealed(&sign("rsa2048", "-md md5")), true, Stricter("uses the digest")),
        ("a short key", sealed(&sign("rsa1024", "")), true, Stricter("does not fit the key")),
        ("another curve", sealed(&sign("k256", "")), true, Stricter("curve")),
        (
            "PSS",
            sealed(&sign("rsa2048", "-keyopt rsa_padding_mode:pss")),
            true,
            Stricter("uses the algorithm 1.2.840.113549.1.1.10"),
        ),
        ("no attributes", sealed(&sign("rsa2048", "-noattr")), true, Stricter("no authenticated attributes")),
        (
            "two signers",
            sealed(&sign("rsa2048", "-signer p256.crt -inkey p256.key")),
            true,
            Stricter("2 signers"),
        ),
        ("BER", sealed(&sign("rsa2048", "-stream -indef")), true, Stricter("cannot be read")),
        ("another content", sealed(&keys.sign(&other, "rsa2048", "")), false, Same),
        (
            "bytes behind the signature",
            sealed(&[signature.as_slice(), b"\0"].concat()),
            true,
            Stricter("cannot be read"),
        ),
        ("two signatures", sealed(&signature.repeat(2)), true, Stricter("cannot be read")),
        ("garbage", sealed(b"garbage"), false, Same),
        ("nothing", sealed(b""), false, Same),
        ("a certificate", sealed(&std::fs::read(keys.path("rsa2048.crt")).unwrap()), false, Same),
        ("a truncated signature", sealed(&signature[..signature.len() - 1]), false, Same),
        ("half a signature", sealed(&signature[..signature.len() / 2]), false, Same),
        ("two blocks", seal(&one, &keys.sign(&one, "rsa2048", "")), true, Stricter("two signature blocks")),
        ("the same block twice", seal(&one, &signature), false, Same),
        (
            "bytes behind the block",
            [one.as_slice(), b"\n"].concat(),
            true,
            Stricter("cut off, or other data follows"),
        ),
    ]);
    // Encapsulated content: OpenSSL checks that, and not the file.
    let attached = keys.sign(content, "rsa2048", "-nodetach");
    cases.push(("an attached content", sealed(&attached), true, Stricter("content of its own")));
    let mut changed = one.clone();
    changed[60] ^= 1;
    cases.push(("a changed byte of the content", changed, false, Same));
    for index in 0..4 {
        let mut changed = one.clone();
        changed[content.len() + 11 + index] ^= 1;
        let name =
            ["the length, by 1", "the length, by 256", "the length, by 64 KiB", "the length, by 16 MiB"]
                [index];
        // OpenSSL is given as much as there is.
        let accepted = split(&changed).is_some_and(|(content, der)| keys.accepts(content, der));
        cases.push((name, changed, accepted, if accepted { Stricter("states") } else { Same }));
    }
    for (name, file, expected, differs) in &cases {
        let (signed, der) = split(file).unwrap();
        assert_eq!(keys.accepts(signed, der), *expected, "OpenSSL on {name}");
        // The records of a changed archive are wrong, too: only the verdict is asked for here.
        let verdict = judge(file);
        match (differs, &verdict) {
            (Same, verdict) => assert_eq!(is_accepted(verdict), *expected, "{name}: {verdict:?}"),
            (Stricter(reason), SignatureVerdict::Invalid { why }) => {
                assert!(why.contains(reason), "{name}: {why}");
            }
            (Stricter(_), verdict) => panic!("{name} is accepted: {verdict:?}"),
        }
    }
    assert!(cases.len() > 40);
}

/// Each byte of a signature is changed, and each length cut. OpenSSL must accept whatever we accept.
#[test]
fn no_change_is_accepted_that_openssl_refuses() {
    let Some(keys) = Keys::new() else { return };
    keys.certificate("p256", "ec -pkeyopt ec_paramgen_curve:P-256");
    let zip = bundle(&[]);
    let der = keys.sign(&zip, "p256", "-nosmimecap -nocerts");
    let with_certificate = keys.sign(&zip, "p256", "-nosmimecap");
    assert!(der.len() < with_certificate.len());
    let (mut accepted, mut refused, mut lax) = (0, 0, Vec::new());
    for index in 0..with_certificate.len() {
        for bit in [0x01, 0x80] {
            let mut changed = with_certificate.clone();
            changed[index] ^= bit;
            if is_accepted(&judge(&seal(&zip, &changed))) {
                // Bytes that the signature does not cover, as those of the certificate.
                accepted += 1;
                if !keys.accepts(&zip, &changed) {
                    lax.push((index, bit));
                }
            } else {
                refused += 1;
            }
        }
        let cut = &with_certificate[..index];
        assert!(!is_accepted(&judge(&seal(&zip, cut))), "cut at {index}");
    }
    assert_eq!(lax, [], "accepted here, and refused by OpenSSL: {}", hex(&with_certificate));
    assert!(accepted < 60 && refused > 800, "{accepted} accepted, {refused} refused");
}

#[test]
fn a_bundle_without_a_block_is_unsigned() {
    assert_eq!(judge(&bundle(&[])), SignatureVerdict::Unsigned);
    // The marker in a file of the archive is no signature.
    let inside = bundle(&[Entry::stored("x", b"MCPB_SIG_V1\0\0\0\0MCPB_SIG_END")]);
    assert_eq!(judge(&inside), SignatureVerdict::Unsigned);
}

#[test]
fn a_cut_block_is_invalid_and_not_unsigned() {
    let file = seal(&bundle(&[]), &[0x30; 200]);
    let start = bundle(&[]).len();
    for length in start + 11..file.len() {
        let verdict = judge(&file[..length]);
        assert!(matches!(verdict, SignatureVerdict::Invalid { .. }), "{length}: {verdict:?}");
    }
}

#[test]
fn self_signed_is_told_from_signed_and_trusted() {
    let Some(keys) = Keys::new() else { return };
    keys.certificate("root", "rsa:2048");
    keys.certificate("stranger", "rsa:2048");
    keys.issued("between", "root", "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n");
    let code = "basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=codeSigning\n";
    keys.issued("direct", "root", code);
    keys.issued("leaf", "between", code);
    keys.issued("server", "root", "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n");
    keys.issued("plain", "root", "basicConstraints=CA:FALSE\n");
    let zip = bundle(&[]);
    let roots = keys.roots(&["root"]);
    let now = SystemTime::now();
    let verdict = |name: &str, more: &str| judge_at(&seal(&zip, &keys.sign(&zip, name, more)), &roots, now);
    let SignatureVerdict::SelfSigned { signer } = verdict("stranger", "") else { panic!("not self-signed") };
    assert_eq!((signer.name.as_str(), signer.validity), ("stranger", CertificateValidity::Valid));
    keys.run("x509 -in stranger.crt -outform DER -out der");
    let der = std::fs::read(keys.path("der")).unwrap();
    let expected = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &der);
    assert_eq!(signer.fingerprint, hex(expected.as_ref()));
    let trust = |name: &str, more: &str| match verdict(name, more) {
        SignatureVerdict::Signed { signer, issuer, trusted, untrusted_why } => {
            assert_eq!((signer.name.as_str(), trusted), (name, untrusted_why.is_none()));
            (issuer, untrusted_why)
        }
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(trust("direct", ""), ("root".to_owned(), None));
    assert_eq!(trust("leaf", "-certfile between.crt"), ("between".to_owned(), None));
    let why = |name: &str, more: &str| trust(name, more).1.unwrap();
    assert_eq!(why("leaf", ""), "its issuer is not trusted on this system");
    assert_eq!(why("server", ""), "it is not made for code signing");
    assert_eq!(why("plain", ""), "it is not made for code signing");
    // Nobody is trusted without roots, nor after the certificate has ended.
    let file = seal(&zip, &keys.sign(&zip, "direct", ""));
    let at = |days: i64, roots: &TrustRoots| {
        let offset = Duration::from_secs(days.unsigned_abs() * 86_400);
        let moment = if days < 0 { now - offset } else { now + offset };
        match judge_at(&file, roots, moment) {
            SignatureVerdict::Signed { signer, untrusted_why, .. } => (signer.validity, untrusted_why),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at(0, &TrustRoots::none()).1.unwrap(), "its issuer is not trusted on this system");
    assert_eq!(at(3, &roots), (CertificateValidity::Expired, Some("a certificate has expired".to_owned())));
    assert_eq!(
        at(-1, &roots),
        (CertificateValidity::NotYet, Some("a certificate is not valid yet".to_owned()))
    );
}

/// A certificate that names itself as its issuer without its own signature.
#[test]
fn a_forged_self_signed_certificate_is_invalid() {
    let Some(keys) = Keys::new() else { return };
    keys.certificate("real", "rsa:2048");
    let zip = bundle(&[]);
    let mut der = keys.sign(&zip, "real", "");
    // The organization of issuer and subject, and of the signer's name: the certificate is found, and not signed.
    let places: Vec<usize> = der
        .windows(5)
        .enumerate()
        .filter(|(_, window)| *window == b"Tests")
        .map(|(place, _)| place)
        .collect();
    assert_eq!(places.len(), 3);
    places.iter().for_each(|place| der[*place..place + 5].copy_from_slice(b"Bests"));
    assert!(keys.accepts(&zip, &der), "OpenSSL does not look at the certificate's signature");
    let SignatureVerdict::Invalid { why } = judge(&seal(&zip, &der)) else { panic!("accepted") };
    assert!(why.contains("not signed by its own key"), "{why}");
}

#[test]
fn signatures_of_the_reference_tool_are_accepted() {
    let (Some(reference), Some(keys)) = (Reference::installed(), Keys::new()) else { return };
    keys.certificate("root", "rsa:2048");
    keys.certificate("rsa4096", "rsa:4096");
    keys.issued("leaf", "root", "basicConstraints=CA:FALSE\nextendedKeyUsage=codeSigning\n");
    let file = keys.path("demo.mcpb");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let sign = |name: &str, more: &[&str]| {
        let (certificate, key) =
            (text(&keys.path(&format!("{name}.crt"))), text(&keys.path(&format!("{name}.key"))));
        let mut args = vec!["sign", file.to_str().unwrap(), "--cert", &certificate, "--key", &key];
        args.extend_from_slice(more);
        reference.succeeds(&args);
        std::fs::read(&file).unwrap()
    };
    let zip = bundle(&[]);
    std::fs::write(&file, &zip).unwrap();
    let signed = sign("rsa4096", &[]);
    let (content, der) = split(&signed).unwrap();
    assert_eq!(content, zip);
    assert!(keys.accepts(content, der));
    assert!(matches!(judge(&signed), SignatureVerdict::SelfSigned { .. }), "{:?}", judge(&signed));
    let mut changed = signed.clone();
    changed[60] ^= 1;
    assert!(matches!(judge(&changed), SignatureVerdict::Invalid { .. }));
    // Signed a second time, without removing the first signature.
    let twice = sign("rsa4096", &[]);
    assert!(matches!(judge(&twice), SignatureVerdict::Invalid { .. }));
    reference.succeeds(&["unsign", file.to_str().unwrap()]);
    std::fs::write(&file, &zip).unwrap();
    let root = text(&keys.path("root.crt"));
    let issued = sign("leaf", &["--intermediate", &root]);
    let verdict = judge_at(&issued, &keys.roots(&["root"]), SystemTime::now());
    assert!(matches!(&verdict, SignatureVerdict::Signed { trusted: true, .. }), "{verdict:?}");
}
