//! Tests of plans: each kind of package and remote, and what an entry or an answer may not do.

use super::*;
use serde_json::json;

fn entry(name: &str) -> ServerEntry {
    ServerEntry::from_value(hospes_registry_testkit::entry(name)).unwrap()
}

fn of_kind(entry: &ServerEntry, kind: &str) -> LaunchChoice {
    launch_options(entry).into_iter().find(|option| option.kind == kind).unwrap().choice
}

fn answers(pairs: &[(&str, &str)]) -> LaunchAnswers {
    pairs.iter().fold(LaunchAnswers::new(), |answers, (id, answer)| answers.with(*id, *answer))
}

fn plan(name: &str, kind: &str, pairs: &[(&str, &str)]) -> LaunchPlan {
    let entry = entry(name);
    LaunchPlan::new(&entry, of_kind(&entry, kind), &answers(pairs), &LaunchSettings::default()).unwrap()
}

fn refused(name: &str, kind: &str, pairs: &[(&str, &str)]) -> LaunchError {
    let entry = entry(name);
    LaunchPlan::new(&entry, of_kind(&entry, kind), &answers(pairs), &LaunchSettings::default()).unwrap_err()
}

/// The command line with secrets masked, and the environment.
fn shown(plan: &LaunchPlan) -> String {
    let args: Vec<String> = plan.args.iter().map(PlannedText::masked).collect();
    let env: Vec<String> =
        plan.env.iter().map(|(name, value)| format!("{name}={}", value.masked())).collect();
    format!(
        "{} {} [{}]",
        plan.command.as_deref().map_or_else(|| "-".into(), unix_path),
        args.join(" "),
        env.join(" ")
    )
}

/// Returns a path as it would be on Unix: with slashes, and without `.exe`.
fn unix_path(path: &str) -> String {
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    path.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(&path).to_owned()
}

fn ids(name: &str, kind: &str) -> Vec<String> {
    let entry = entry(name);
    questions(&entry, of_kind(&entry, kind)).into_iter().map(|question| question.id).collect()
}

#[test]
fn each_kind_of_package_has_its_command() {
    for (name, kind, pairs, expected) in [
        (
            "io.github.rivermill/tables-mcp",
            "npm",
            &[("TABLES_API_KEY", "k3y")][..],
            "npx -y tables-mcp@1.7.2 [TABLES_API_KEY=***]",
        ),
        (
            "io.github.rivermill/tables-mcp",
            "oci",
            &[("TABLES_API_KEY", "k3y")],
            "docker run -i --rm -e TABLES_API_KEY docker.io/rivermill/tables-mcp:1.7.2 [TABLES_API_KEY=***]",
        ),
        ("io.github.rivermill/tables-mcp", "mcpb", &[], "-  []"),
        ("io.github.rivermill/clock-py", "pypi", &[], "uvx clock-py==1.0.6 []"),
        ("io.github.rivermill/clock-nuget", "nuget", &[], "dnx ClockMcpServer@1.0.8 --yes []"),
        (
            "io.github.northgate/weather-dotnet",
            "nuget",
            &[],
            "dnx Northgate.WeatherServer@0.4.0-beta --yes -- mcp start []",
        ),
        ("io.github.tern/rust-server", "cargo", &[], "bin/tern-mcp serve []"),
        ("io.github.tern/go-server", "go", &[], "bin/mcp-server  []"),
        (
            "io.github.tern/module",
            "pypi",
            &[],
            "uvx --from tern-module==2.0.0 python -m tern_module.server []",
        ),
        ("io.github.tern/repeats-npx", "npm", &[], "npx -y @tern/repeats@1.1.0 []"),
        (
            "io.github.tern/company-npm",
            "npm",
            &[],
            "npx -y @tern/company@1.0.0 [npm_config_registry=https://npm.tern.example]",
        ),
        ("io.github.tern/undeclared", "npm", &[], "npx -y tern-undeclared@1.0.0 --filter {unknown} []"),
        ("io.github.tern/unpinned", "npm", &[], "npx -y tern-unpinned []"),
        ("io.github.tern/old-image", "oci", &[], "docker run -i --rm tern/old-image:1.5.0 []"),
        (
            "io.github.tern/scalar-values",
            "npm",
            &[],
            "npx -y tern-scalars@1.0.0 --port 8080 --fast true --level 2 []",
        ),
    ] {
        assert_eq!(shown(&plan(name, kind, pairs)), expected, "{name}");
    }
}

#[test]
fn an_installed_package_is_started_without_its_launcher() {
    let mut found = entry("io.github.rivermill/tables-mcp");
    let choice = of_kind(&found, "npm");
    let LaunchChoice::Package(index) = choice else { panic!("{choice:?}") };
    let installed = vec!["node".to_owned(), "/p/index.js".to_owned()];
    let settings = LaunchSettings { installed, ..LaunchSettings::default() };
    let given = answers(&[("TABLES_API_KEY", "k3y")]);
    let plan = LaunchPlan::new(&found, choice, &given, &settings).unwrap();
    assert_eq!(shown(&plan), "node /p/index.js [TABLES_API_KEY=***]");
    assert_eq!(plan.sandbox.network, NetworkSuggestion::Likely, "nothing is downloaded any more");
    assert_eq!(install_obstacle(&found.packages[index]), None);
    let argument = json!({ "type": "named", "name": "--package", "value": "other" });
    found.packages[index].runtime_arguments = serde_json::from_value(json!([argument])).unwrap();
    assert_eq!(install_obstacle(&found.packages[index]), Some(InstallObstacle::LauncherArguments));
    let image = of_kind(&found, "oci");
    let LaunchChoice::Package(image) = image else { panic!("{image:?}") };
    assert_eq!(install_obstacle(&found.packages[image]), Some(InstallObstacle::Kind));
}

#[test]
fn repeated_arguments_and_variables_are_filled_in_order() {
    let files = plan("org.toolworks/files", "npm", &[("target_dir", "/a"), ("target_dir", "/b c")]);
    assert_eq!(files.args.last().unwrap().reveal(), "/b c", "an argument is one item, whatever it contains");
    assert_eq!(shown(&files), "npx -y @toolworks/server-files@1.0.2 /a /b c [LOG_LEVEL=info]");
    assert_eq!(files.sandbox.paths, ["/a", "/b c"]);
    let mounted = plan(
        "org.toolworks/files",
        "oci",
        &[("source_path", "/a"), ("source_path", "/b"), ("target_path", "/x"), ("target_path", "/y")],
    );
    assert_eq!(
        shown(&mounted),
        "docker run -i --rm --mount type=bind,src=/a,dst=/x --mount type=bind,src=/b,dst=/y -e LOG_LEVEL \
         docker.io/toolworks/files:1.0.2 /project [LOG_LEVEL=info]"
    );
    let mount = |source: &str, target: &str| LaunchPermission::Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only: false,
    };
    assert_eq!(mounted.permissions, [mount("/a", "/x"), mount("/b", "/y")]);
    let uneven = refused(
        "org.toolworks/files",
        "oci",
        &[
            ("source_path", "/a"),
            ("source_path", "/b"),
            ("source_path", "/c"),
            ("target_path", "/x"),
            ("target_path", "/y"),
        ],
    );
    assert!(uneven.to_string().contains("target_path: 2 answers"), "{uneven}");
}

#[test]
fn values_of_a_container_stay_out_of_its_arguments() {
    let plan = plan(
        "io.github.quarry/database-manager",
        "oci",
        &[
            ("db_type", "postgres"),
            ("DB_USERNAME", "me"),
            ("DB_PASSWORD", "s3cret"),
            ("database_name", "shop"),
            ("port", "5432"),
        ],
    );
    assert_eq!(
        shown(&plan),
        "docker run -i --rm --network host -e DB_USERNAME -e DB_PASSWORD -e SSL_MODE -e DB_TYPE \
         ghcr.io/quarry/database-manager:3.1.0 --host localhost --port 5432 shop \
         [DB_USERNAME=me DB_PASSWORD=*** SSL_MODE=prefer DB_TYPE=postgres]"
    );
    assert_eq!(plan.permissions, [LaunchPermission::HostNetwork]);
    assert!(plan.permissions[0].breaks_out());
    assert!(plan.warnings.contains(&LaunchWarning::TagNotDigest));
    let secret = &plan.secrets[0];
    assert_eq!(
        (secret.question.as_str(), &secret.positions[0]),
        ("DB_PASSWORD", &SecretPosition::Env("DB_PASSWORD".to_owned()))
    );
    assert!(!format!("{plan:?}").contains("s3cret"), "a secret is not in the debug text");
}

#[test]
fn an_image_is_pinned_to_its_digest() {
    let entry = entry("io.github.tern/old-image");
    let digest = format!("sha256:{}", "12".repeat(32));
    let settings = LaunchSettings { digest: Some(digest.clone()), ..LaunchSettings::default() };
    let plan = LaunchPlan::new(&entry, LaunchChoice::Package(0), &LaunchAnswers::new(), &settings).unwrap();
    assert_eq!(plan.args.last().unwrap().reveal(), format!("tern/old-image@{digest}"));
    assert_eq!(plan.digest, Some(digest));
    assert!(!plan.warnings.contains(&LaunchWarning::TagNotDigest));
    let pinned = self::plan("io.github.tern/pinned-image", "oci", &[]);
    assert_eq!(
        pinned.args.last().unwrap().reveal(),
        format!("ghcr.io/tern/pinned@sha256:{}", "cd".repeat(32))
    );
}

#[test]
fn permissions_of_a_container_are_listed() {
    let plan = plan("io.github.tern/privileged", "oci", &[("home", "/home/me")]);
    let mount = |source: &str, target: &str, read_only| LaunchPermission::Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only,
    };
    assert_eq!(
        plan.permissions,
        [
            LaunchPermission::Privileged,
            mount("/var/run/docker.sock", "/var/run/docker.sock", false),
            LaunchPermission::Capability("SYS_ADMIN".to_owned()),
            mount("/home/me", "/data", true),
            LaunchPermission::Port("127.0.0.1:8080:80".to_owned()),
            LaunchPermission::Namespace("--pid=host".to_owned()),
        ]
    );
    let ways_out = plan.permissions.iter().filter(|permission| permission.breaks_out()).count();
    assert_eq!(ways_out, 4);
}

#[test]
fn only_what_is_open_is_asked() {
    assert_eq!(ids("io.github.rivermill/clock-py", "pypi"), [] as [&str; 0]);
    assert_eq!(ids("io.github.northgate/weather-dotnet", "nuget"), [] as [&str; 0]);
    assert_eq!(ids("org.toolworks/files", "npm"), ["target_dir", "LOG_LEVEL"]);
    assert_eq!(ids("org.toolworks/files", "oci"), ["source_path", "target_path", "LOG_LEVEL"]);
    assert_eq!(
        ids("io.github.quarry/database-manager", "oci"),
        ["DB_USERNAME", "DB_PASSWORD", "host", "database_name", "db_type", "SSL_MODE", "port"]
    );
    assert_eq!(ids("io.github.tern/switches", "npm"), ["read-only", "verbose", "n", "offset", "query"]);
    assert_eq!(
        ids("io.github.tern/same-names", "npm"),
        ["path", "path-2", "argument2.path", "argument3.path"]
    );
    assert_eq!(ids("com.acme/analytics", "remote"), ["X-API-Key"]);
    assert_eq!(ids("io.github.tern/multi-tenant", "remote"), ["tenant", "token", "path", "region"]);
}

#[test]
fn questions_say_what_they_ask() {
    let entry = entry("io.github.quarry/database-manager");
    let questions = questions(&entry, LaunchChoice::Package(0));
    let of = |id: &str| questions.iter().find(|question| question.id == id).unwrap();
    assert_eq!(of("DB_PASSWORD").kind, QuestionKind::Secret);
    assert_eq!(of("port").kind, QuestionKind::Number);
    assert_eq!(of("db_type").kind, QuestionKind::Choice);
    assert!(of("db_type").repeated && of("db_type").required);
    assert_eq!(of("db_type").target, QuestionTarget::RuntimeArgument("e".to_owned()));
    assert_eq!(of("SSL_MODE").default.as_deref(), Some("prefer"));
    assert_eq!(of("host").description.as_deref(), Some("Host of the database"));
}

#[test]
fn switches_and_values_that_look_like_options_are_told_apart() {
    let plan = |pairs: &[(&str, &str)]| self::plan("io.github.tern/switches", "npm", pairs);
    assert_eq!(shown(&plan(&[])), "npx -y tern-switches@1.0.0 --read-only --stdio []");
    assert_eq!(
        shown(&plan(&[("read-only", "false"), ("verbose", "true"), ("n", "5"), ("offset", "-3")])),
        "npx -y tern-switches@1.0.0 --verbose --stdio -n 5 --offset=-3 []"
    );
    let suspicious = plan(&[("query", "--config=/etc/passwd")]);
    let warning = LaunchWarning::PositionalLooksLikeOption { value: "--config=/etc/passwd".to_owned() };
    assert!(suspicious.warnings.contains(&warning), "{:?}", suspicious.warnings);
}

#[test]
fn wrong_and_missing_answers_are_named() {
    let database = "io.github.quarry/database-manager";
    let text =
        refused(database, "oci", &[("db_type", "oracle"), ("port", "0x10"), ("nonsense", "1")]).to_string();
    for expected in [
        "db_type: expected one of: postgres, mysql, mongodb, redis",
        "port: expected a decimal number",
        "DB_PASSWORD: an answer is required",
        "nonsense: there is no such question",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let twice =
        refused("io.github.tern/argument-secret", "npm", &[("token", "hunter2"), ("token", "hunter3")]);
    assert!(!twice.to_string().contains("hunter"), "an answer is not quoted: {twice}");
    let empty = refused("io.github.rivermill/tables-mcp", "npm", &[("TABLES_API_KEY", "")]);
    assert_eq!(empty.to_string(), "TABLES_API_KEY: an answer is required");
}

#[test]
fn a_secret_in_arguments_is_reported() {
    let plan = plan("io.github.tern/argument-secret", "npm", &[("token", "hunter2")]);
    assert!(plan.warnings.contains(&LaunchWarning::SecretInArguments { question: "token".to_owned() }));
    assert_eq!(plan.secrets[0].positions, [SecretPosition::Argument(3)]);
    assert_eq!(plan.args[3].reveal(), "hunter2");
    assert_eq!(plan.args[3].render(str::to_owned, |id| format!("${{secret:{id}}}")), "${secret:token}");
}

#[test]
fn what_a_person_should_know_is_a_warning() {
    let has = |name: &str, kind: &str, warning: LaunchWarning| {
        let plan = plan(name, kind, &[]);
        assert!(plan.warnings.contains(&warning), "{name}: {:?}", plan.warnings);
    };
    has("io.github.tern/preload", "npm", LaunchWarning::CodeLoadingVariable("NODE_OPTIONS".to_owned()));
    has("io.github.tern/unpinned", "npm", LaunchWarning::Unpinned);
    has("io.github.tern/undeclared", "npm", LaunchWarning::UndeclaredVariable("unknown".to_owned()));
    has("io.github.tern/rust-server", "cargo", LaunchWarning::Compiles);
    has(
        "io.github.tern/company-npm",
        "npm",
        LaunchWarning::OtherPackageRegistry("https://npm.tern.example".to_owned()),
    );
    has(
        "io.github.tern/after-install",
        "mcpb",
        LaunchWarning::PostInstall {
            description: "Install the service".to_owned(),
            command: Some("tern service install".to_owned()),
        },
    );
    has(
        "io.github.tern/module",
        "pypi",
        LaunchWarning::RuntimeArguments(vec!["-m".to_owned(), "tern_module.server".to_owned()]),
    );
    assert_eq!(
        plan("io.github.rivermill/clock-py", "pypi", &[]).warnings,
        [],
        "the hint `python` is no warning"
    );
}

#[test]
fn compiled_servers_are_installed_into_the_private_folder() {
    let settings = LaunchSettings { folder: Some("/data/x".into()), ..LaunchSettings::default() };
    let plan = |name: &str| {
        LaunchPlan::new(&entry(name), LaunchChoice::Package(0), &LaunchAnswers::new(), &settings).unwrap()
    };
    let crates = plan("io.github.tern/rust-server");
    assert_eq!(crates.command.as_deref().map(unix_path).as_deref(), Some("/data/x/bin/tern-mcp"));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        crates.install,
        Some(InstallStep::Run {
            command: "cargo".to_owned(),
            args: words("install tern-mcp --version 0.9.1 --locked --root /data/x"),
            env: Vec::new()
        })
    );
    let module = plan("io.github.tern/go-server");
    assert_eq!(module.command.as_deref().map(unix_path).as_deref(), Some("/data/x/bin/mcp-server"));
    let binaries = std::path::Path::new("/data/x").join("bin").display().to_string();
    assert_eq!(
        module.install,
        Some(InstallStep::Run {
            command: "go".to_owned(),
            args: words("install github.com/tern/mcp-server/v2@v2.4.0"),
            env: vec![("GOBIN".to_owned(), binaries)]
        })
    );
}

#[test]
fn options_are_ordered_with_reasons() {
    let kinds = |name: &str| -> Vec<String> {
        launch_options(&entry(name)).into_iter().map(|option| option.kind).collect()
    };
    assert_eq!(kinds("io.github.rivermill/tables-mcp"), ["mcpb", "npm", "oci"]);
    assert_eq!(
        kinds("com.example.email/email-mcp"),
        ["remote", "npm"],
        "the host is below email.example.com"
    );
    let analytics = launch_options(&entry("com.acme/analytics"));
    assert_eq!(analytics[0].identifier, "https://analytics.acme.com/mcp", "Streamable HTTP comes first");
    assert_eq!(analytics[0].reason, OptionReason::OwnDomainRemote);
    assert_eq!(launch_options(&entry("io.github.cyra/cyra-mcp"))[0].reason, OptionReason::OtherRemote);
    assert_eq!(launch_options(&entry("io.github.tern/empty")), []);
    for (name, obstacle) in [
        ("io.github.tern/jvm-server", LaunchObstacle::UnknownKind("maven".to_owned())),
        ("io.github.tern/local-http", LaunchObstacle::LocalHttp),
        ("org.toolworks/unhashed", LaunchObstacle::MissingHash),
    ] {
        assert_eq!(launch_options(&entry(name))[0].obstacle, Some(obstacle.clone()), "{name}");
        let refused = LaunchPlan::new(
            &entry(name),
            LaunchChoice::Package(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        assert_eq!(refused, Err(LaunchError::Obstacle(obstacle)), "{name}");
    }
}

#[test]
fn remotes_are_filled_and_checked() {
    let tenant = plan(
        "io.github.tern/multi-tenant",
        "remote",
        &[("tenant", "acme"), ("token", "t0ken"), ("path", "a b/c"), ("region", "us")],
    );
    assert_eq!(tenant.url.unwrap().reveal(), "https://acme.tern.example/a%20b/c/mcp?region=us");
    assert_eq!(tenant.headers[0].1.reveal(), "Bearer t0ken");
    assert_eq!(tenant.headers[0].1.masked(), "Bearer ***");
    assert_eq!(tenant.secrets[0].positions, [SecretPosition::Header("Authorization".to_owned())]);
    for (id, answer) in [
        ("tenant", "evil.example/x"),
        ("tenant", "me@evil.example"),
        ("tenant", "a#"),
        ("tenant", "a\\b"),
        ("tenant", "a?b"),
        ("tenant", "a b"),
        ("path", "../../admin"),
        ("region", "mars"),
    ] {
        let pairs = [("tenant", "acme"), ("token", "t0ken")];
        let mut answers = answers(&pairs);
        answers.set(id, answer);
        let entry = entry("io.github.tern/multi-tenant");
        let plan = LaunchPlan::new(&entry, LaunchChoice::Remote(0), &answers, &LaunchSettings::default());
        assert!(plan.is_err(), "{id}={answer} became {:?}", plan.unwrap().url);
    }
    let crlf =
        refused("io.github.tern/multi-tenant", "remote", &[("tenant", "acme"), ("token", "t\r\nX-Evil: 1")]);
    assert!(crlf.to_string().contains("line break"), "{crlf}");
    assert!(!crlf.to_string().contains("Evil"), "a secret is not quoted: {crlf}");
}

fn custom(value: &serde_json::Value) -> ServerEntry {
    let mut server = json!({ "name": "a.b/c", "description": "x", "version": "1.0.0" });
    server.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    ServerEntry::from_value(server).unwrap()
}

#[test]
fn urls_of_remotes_are_https_without_credentials() {
    for url in [
        "http://mcp.example/",
        "https://user@mcp.example/",
        "https://user:word@mcp.example/",
        "ftp://mcp.example/",
        "file:///etc/passwd",
        "https:///x",
        "https:mcp.example/",
        "https:\\\\mcp.example/",
        "https://mcp.example\\x",
        "https://{host}",
        "nonsense",
        "https://mcp.example/a b",
        "https://mcp.example/{undeclared}",
    ] {
        let entry = custom(&json!({ "remotes": [{ "type": "streamable-http", "url": url }] }));
        let plan = LaunchPlan::new(
            &entry,
            LaunchChoice::Remote(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        assert!(matches!(plan, Err(LaunchError::Unsafe { .. })), "{url}: {plan:?}");
    }
    let local = custom(&json!({ "remotes": [{ "type": "sse", "url": "http://127.0.0.1:8080/sse" }] }));
    let plan =
        LaunchPlan::new(&local, LaunchChoice::Remote(0), &LaunchAnswers::new(), &LaunchSettings::default())
            .unwrap();
    assert_eq!(plan.warnings, [LaunchWarning::LoopbackUrl]);
}

#[test]
fn identifiers_cannot_be_options_urls_or_folders() {
    for (kind, identifier) in [
        ("npm", "--registry=https://evil.example"),
        ("npm", "git+https://evil.example/x.git"),
        ("npm", "https://evil.example/x.tgz"),
        ("npm", "../folder"),
        ("npm", "file:x"),
        ("npm", "owner/repository"),
        ("npm", "@scope/a/b"),
        ("npm", "name@npm:other"),
        ("npm", ""),
        ("npm", "a b"),
        ("pypi", "-r"),
        ("pypi", "x @ https://evil.example/x.whl"),
        ("pypi", "x[extra]"),
        ("pypi", "git+https://evil.example"),
        ("nuget", "--source"),
        ("cargo", "--git"),
        ("go", "module"),
        ("go", "evil.example/../x"),
        ("go", "-mod=mod/x"),
        ("oci", "--privileged"),
        ("oci", "UPPER/case:1"),
        ("oci", "ghcr.io/x/y:1 --privileged"),
        ("oci", "ghcr.io/x/y@sha256:short"),
        ("mcpb", "http://downloads.example/x.mcpb"),
        ("mcpb", "https://me:word@downloads.example/x.mcpb"),
        ("mcpb", "/etc/x.mcpb"),
    ] {
        let hash = "ab".repeat(32);
        let package =
            json!({ "registryType": kind, "identifier": identifier, "version": "1.0.0", "fileSha256": hash });
        let entry = custom(&json!({ "packages": [package] }));
        let plan = LaunchPlan::new(
            &entry,
            LaunchChoice::Package(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        let is_refused = matches!(&plan, Err(LaunchError::Obstacle(LaunchObstacle::Invalid { path, .. })) if path == "packages[0].identifier");
        assert!(is_refused, "{kind} {identifier}: {plan:?}");
    }
    for version in ["latest", "^1.0", "1.x", ">=1", "1 || 2", "--yes", "1.0 --evil", "", "1/2", "file:x"] {
        let package = json!({ "registryType": "npm", "identifier": "x", "version": version });
        let entry = custom(&json!({ "packages": [package] }));
        let plan = LaunchPlan::new(
            &entry,
            LaunchChoice::Package(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        assert!(plan.is_err(), "{version}: {plan:?}");
    }
}

#[test]
fn names_of_variables_and_headers_are_checked() {
    for name in ["A=B", "", "A B", "1A", "A\n"] {
        let package = json!({ "registryType": "npm", "identifier": "x", "version": "1.0.0",
            "environmentVariables": [{ "name": name, "value": "1" }] });
        let entry = custom(&json!({ "packages": [package] }));
        let plan = LaunchPlan::new(
            &entry,
            LaunchChoice::Package(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        assert!(matches!(plan, Err(LaunchError::Unsafe { .. })), "{name}: {plan:?}");
    }
    for name in ["Host", "content-length", "Mcp-Session-Id", "a b", "x:", "", "X\r\nY"] {
        let remote = json!({ "type": "sse", "url": "https://a.example/", "headers": [{ "name": name, "value": "1" }] });
        let entry = custom(&json!({ "remotes": [remote] }));
        let plan = LaunchPlan::new(
            &entry,
            LaunchChoice::Remote(0),
            &LaunchAnswers::new(),
            &LaunchSettings::default(),
        );
        assert!(matches!(plan, Err(LaunchError::Unsafe { .. })), "{name}: {plan:?}");
    }
}

#[test]
fn local_names_are_short_and_unique() {
    let free = |_: &str| false;
    assert_eq!(local_name("io.github.x/Airtable.MCP-server", free), "airtable-mcp-server");
    assert_eq!(local_name("io.github.x/a__b", free), "a_b");
    assert_eq!(local_name("io.github.x/--", free), "server");
    assert_eq!(local_name(&format!("x/{}", "a".repeat(100)), free).len(), 32);
    let taken = ["files", "files-2"];
    assert_eq!(local_name("org.x/files", |name| taken.contains(&name)), "files-3");
}
