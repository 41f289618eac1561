//! `hospes bundle`: packing folders and judging bundles.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{House, Ran, installed, text};

/// A folder `demo` with a server that asks for values.
fn house() -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("demo/lib")).unwrap();
    house.write("demo/manifest.json", &manifest().to_string());
    house.write("demo/server.js", "console.error('hello');\n");
    house.write("demo/lib/a.js", "1;\n");
    house.write("demo/.env", "TOKEN=x\n");
    house
}

fn manifest() -> Value {
    json!({
        "manifest_version": "0.3", "name": "demo", "display_name": "Demo", "version": "1.0.0", "description": "A demo",
        "author": { "name": "Ada" },
        "server": {
            "type": "node", "entry_point": "server.js",
            "mcp_config": {
                "command": "node",
                "args": ["${__dirname}/server.js", "${user_config.folders}", "--token=${user_config.token}"],
                "env": { "API_KEY": "${user_config.key}" }
            }
        },
        "user_config": {
            "folders": { "type": "directory", "title": "F", "description": "", "multiple": true, "required": true },
            "key": { "type": "string", "title": "K", "description": "", "sensitive": true, "required": true },
            "token": { "type": "string", "title": "T", "description": "", "sensitive": true }
        },
        "compatibility": { "platforms": ["linux"], "runtimes": { "node": ">=18" } },
        "privacy_policies": ["https://example.org/privacy"]
    })
}

fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

#[test]
fn a_folder_is_packed_and_the_bundle_is_judged() {
    let house = house();
    let ran = house.run(&["bundle", "demo"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in ["Demo 1.0.0", "demo-1.0.0.mcpb", "lib/a.js", "3 files", "left out"] {
        assert!(ran.stdout.contains(said), "{said}: {ran:?}");
    }
    assert!(ran.stderr.contains("user_config.token: a secret is part of the command"), "{ran:?}");
    assert!(!ran.stdout.contains(".env"), "{ran:?}");
    let digest = |file: &str| {
        let bytes = std::fs::read(house.path(file)).unwrap();
        <sha2::Sha256 as sha2::Digest>::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert!(ran.stdout.contains(&digest("demo-1.0.0.mcpb")), "{ran:?}");

    let check = house.run(&["bundle", "--check", "demo-1.0.0.mcpb"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    for said in [
        "none: nothing says who made it",
        "node ${__dirname}/server.js ${user_config.folders} --token=${user_config.token}",
        "folders: folders",
        "key: a secret in the variable API_KEY",
        "token: a secret in argument 3, visible to other programs (optional)",
        "linux",
        "node >=18",
        "https://example.org/privacy",
        "it can be used",
    ] {
        assert!(check.stdout.contains(said), "{said}: {check:?}");
    }

    let check = parsed(&house.run(&["--json", "bundle", "--check", "demo-1.0.0.mcpb"]));
    assert_eq!(check["sha256"], digest("demo-1.0.0.mcpb"));
    assert_eq!((&check["ok"], &check["signature"]), (&json!(true), &json!({ "status": "unsigned" })));
    assert_eq!(check["manifest"]["options"][1]["secretIn"], json!([{ "env": "API_KEY" }]));
    assert_eq!(check["findings"][0]["level"], "warning");

    let other = parsed(&house.run(&["--json", "bundle", "demo", "--output", "other.mcpb"]));
    assert_eq!(other["sha256"], digest("demo-1.0.0.mcpb"), "the same folder gives the same bytes");
    assert_eq!(other["files"][0], json!({ "name": "lib/a.js", "size": 3 }));
}

#[test]
fn faults_are_listed_and_nothing_is_written() {
    let house = house();
    let mut wrong = manifest();
    wrong["server"]["entry_point"] = json!("nothing.js");
    wrong["icon"] = json!("server.js");
    house.write("demo/manifest.json", &wrong.to_string());
    let ran = house.run(&["bundle", "demo"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("server.entry_point") && ran.stderr.contains("icon"), "{ran:?}");
    let check = house.run(&["bundle", "--check", "demo"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(
        check.stdout.contains("no file \"nothing.js\"") && check.stdout.contains("it has errors"),
        "{check:?}"
    );

    // Text of the manifest does not reach the terminal as it is.
    wrong["\u{1b}[2J"] = json!(1);
    wrong["name"] = json!("x\u{1b}[2Jy");
    house.write("demo/manifest.json", &wrong.to_string());
    for args in
        [&["bundle", "demo"][..], &["bundle", "--check", "demo"], &["--json", "bundle", "--check", "demo"]]
    {
        let ran = house.run(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains('\u{1b}'), "{ran:?}");
    }

    house.write("demo/manifest.json", &manifest().to_string());
    house.write("demo/.mcpbignore", "!.env\n");
    let ran = house.run(&["bundle", "demo"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains(".env") && ran.stderr.contains("--allow-secrets"),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("TOKEN"), "{ran:?}");
    assert!(!house.path("demo-1.0.0.mcpb").exists());
    assert_eq!(house.run(&["bundle", "demo", "--allow-secrets"]).code, Some(0));

    for (args, said) in [
        (&["bundle", "nowhere"][..], "nowhere"),
        (&["bundle", "demo-1.0.0.mcpb"], "--check"),
        (&["bundle", "home-without-manifest"], "home-without-manifest"),
        (&["bundle", "--check", "demo/server.js"], "no intact ZIP archive"),
        (&["bundle", "--check", "nowhere.mcpb"], "nowhere.mcpb"),
        (&["bundle", "--check", "--output", "x"], "cannot be used with"),
    ] {
        let ran = house.run(args);
        assert!(ran.code == Some(1) && ran.stderr.contains(said), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_signature_is_shown_for_what_it_is() {
    let Some(openssl) = installed("openssl") else { return };
    let house = house();
    let run = |args: &str| {
        let mut command = Command::new(&openssl);
        command.args(args.split(' ')).current_dir(house.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().unwrap().success(), "openssl {args}");
    };
    house.run(&["bundle", "demo", "--output", "demo.mcpb"]);
    let zip = std::fs::read(house.path("demo.mcpb")).unwrap();
    let seal = |zip: &[u8]| {
        let der = std::fs::read(house.path("signature")).unwrap();
        let length = (der.len() as u32).to_le_bytes();
        std::fs::write(
            house.path("demo.mcpb"),
            [zip, b"MCPB_SIG_V1", &length, &der, b"MCPB_SIG_END"].concat(),
        )
        .unwrap();
    };
    let check = || house.run(&["bundle", "--check", "demo.mcpb"]);
    run("req -x509 -newkey rsa:2048 -nodes -keyout root.key -out root.crt -days 2 -subj /CN=Root");
    run("cms -sign -binary -in demo.mcpb -signer root.crt -inkey root.key -outform DER -out signature");
    seal(&zip);
    let ran = check();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("self-signed as \"Root\", which proves no name"), "{ran:?}");

    // A signature of another bundle.
    let mut other = zip.clone();
    // The seconds of the first file's time, which no checksum covers, in the list of files.
    let directory = other.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    other[directory + 36] ^= 1;
    seal(&other);
    let ran = check();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("invalid: the content is not the one that was signed"), "{ran:?}");
    let status = parsed(&house.run(&["--json", "bundle", "--check", "demo.mcpb"]));
    assert_eq!((&status["ok"], &status["signature"]["status"]), (&json!(false), &json!("invalid")));

    run("req -new -newkey rsa:2048 -nodes -keyout leaf.key -out leaf.csr -subj /CN=Leaf");
    house.write("extensions", "basicConstraints=CA:FALSE\nextendedKeyUsage=codeSigning\n");
    run(
        "x509 -req -in leaf.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 -out leaf.crt -extfile extensions",
    );
    std::fs::write(house.path("demo.mcpb"), &zip).unwrap();
    run("cms -sign -binary -in demo.mcpb -signer leaf.crt -inkey leaf.key -outform DER -out signature");
    seal(&zip);
    let ran = check();
    assert!(ran.stdout.contains("signed as \"Leaf\" by \"Root\", not trusted: its issuer"), "{ran:?}");
    let mut command = house.command(&["bundle", "--check", "demo.mcpb"]);
    command.env("SSL_CERT_FILE", text(&house.path("root.crt")));
    let ran = Ran::of(command.output().unwrap());
    assert!(ran.stdout.contains("signed by \"Leaf\", certified by \"Root\""), "{ran:?}");
}
