//! `mcp-contextforge-gateway` of PyPI, with the settings of its own compose file that fit two processors.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::call_load::CallTarget;
use crate::child::ChildProcess;
use crate::cluster::free_port;
use crate::http::{HttpRequest, send};
use crate::usage::ProcessGroups;

/// Folder of the packages, as `PYTHONPATH` has it.
const PACKAGES: &str = "HOSPES_PEER_PACKAGES";

/// Python that has the packages by itself, to measure another version of them.
const PYTHON: &str = "HOSPES_PEER_PYTHON";

/// Time for the start, in which it creates its tables.
const START_LIMIT: Duration = Duration::from_secs(180);

/// Time for a request of its administration.
const ADMIN_LIMIT: Duration = Duration::from_secs(60);

const ADMINISTRATOR: &str = "admin@example.com";

/// Connections of each worker to Redis.
const REDIS_CONNECTIONS: usize = 12_000;

/// Settings of its compose file, as far as they change how much a call costs or what it can do. Sessions and streams are
/// off by default; limits of rates are off there as well.
const SETTINGS: [(&str, &str); 30] = [
    ("AUTH_CACHE_BATCH_QUERIES", "true"),
    ("AUTH_CACHE_ENABLED", "true"),
    ("CACHE_TYPE", "redis"),
    ("COMPRESSION_ENABLED", "false"),
    ("CORRELATION_ID_ENABLED", "false"),
    ("DB_MAX_OVERFLOW", "5"),
    ("DB_POOL_CLASS", "queue"),
    ("DB_POOL_PRE_PING", "true"),
    // 20 for each of its workers there; the server has 60 for all.
    ("DB_POOL_SIZE", "15"),
    ("DISABLE_ACCESS_LOG", "true"),
    ("ENVIRONMENT", "development"),
    ("HTTPX_MAX_CONNECTIONS", "500"),
    ("HTTPX_MAX_KEEPALIVE_CONNECTIONS", "300"),
    ("LOG_LEVEL", "ERROR"),
    ("AUDIT_TRAIL_ENABLED", "false"),
    ("MCPGATEWAY_UI_ENABLED", "false"),
    ("METRICS_CACHE_ENABLED", "true"),
    ("OBSERVABILITY_ENABLED", "false"),
    ("PLUGINS_ENABLED", "false"),
    ("RATE_LIMITING_ENABLED", "false"),
    ("REDIS_PARSER", "hiredis"),
    ("REGISTRY_CACHE_ENABLED", "true"),
    ("SECURITY_LOGGING_ENABLED", "false"),
    ("SSRF_ALLOW_LOCALHOST", "true"),
    ("SSRF_ALLOW_PRIVATE_NETWORKS", "true"),
    ("STRUCTURED_LOGGING_DATABASE_ENABLED", "false"),
    ("TOOL_CONCURRENT_LIMIT", "1000"),
    ("TOOL_RATE_LIMIT", "60000000"),
    ("USE_STATEFUL_SESSIONS", "true"),
    ("VALIDATION_MIDDLEWARE_ENABLED", "false"),
];

/// The gateway with engines of its own, in front of one server.
#[derive(Debug)]
pub(crate) struct PeerGateway {
    process: ChildProcess,
    redis: RedisServer,
    database: PostgresServer,
    /// Version of the package.
    pub(crate) version: String,
    pub(crate) target: CallTarget,
}

/// Folder and environment of its programs.
struct PeerPrograms {
    python: OsString,
    folder: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl PeerGateway {
    /// Starts it with so many processes, of which each uses one processor, and registers the server. Several forward the
    /// calls of a session to the one that has it, by its setting for session affinity.
    pub(crate) async fn start(folder: &Path, server: &str, workers: usize) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        let redis = RedisServer::start(
            RedisOptions::default().with("maxclients", &(workers * REDIS_CONNECTIONS).to_string()),
        );
        let database = PostgresServer::start(PostgresOptions::default().with("fsync", "off"));
        let port = free_port()?;
        let mut programs = PeerPrograms::new(&folder, port, &redis, &database)?;
        programs.variables.push(("MCPGATEWAY_SESSION_AFFINITY_ENABLED", (workers > 1).to_string()));
        let version = programs
            .run(&["-c", "import importlib.metadata as m; print(m.version('mcp-contextforge-gateway'))"])?;
        let mut arguments =
            ["-m", "gunicorn", "--worker-class", "uvicorn.workers.UvicornWorker", "--preload"]
                .map(str::to_owned)
                .to_vec();
        arguments.extend([
            "--workers".to_owned(),
            workers.to_string(),
            "--bind".to_owned(),
            format!("127.0.0.1:{port}"),
        ]);
        arguments.extend(
            ["--timeout", "600", "--keep-alive", "30", "--backlog", "4096", "--worker-connections", "20000"]
                .map(str::to_owned),
        );
        arguments.push("mcpgateway.main:app".to_owned());
        let log = folder.join("log");
        let mut process =
            ChildProcess::start(Path::new(&programs.python), &arguments, &programs.variables, &log)?;
        let start = Instant::now();
        while request(port, Method::GET, "/health", "", None).await.is_err() {
            process.check_alive()?;
            ensure!(start.elapsed() < START_LIMIT, "it does not answer:\n{}", process.tail());
            sleep(Duration::from_millis(200)).await;
        }
        let token = programs.run(&[
            "-m",
            "mcpgateway.utils.create_jwt_token",
            "-u",
            ADMINISTRATOR,
            "-e",
            "600",
            "--admin",
        ])?;
        let authorization = format!("Bearer {}", token.lines().last().unwrap_or_default());
        let tool = register(port, &authorization, server).await.with_context(|| process.tail())?;
        let target = CallTarget { port, path: "/mcp/".to_owned(), tool, authorization: Some(authorization) };
        Ok(Self { process, redis, database, version, target })
    }

    /// Processes of the gateway, for measuring.
    pub(crate) fn add_to(&self, groups: &mut ProcessGroups) {
        groups.add("nodes", vec![self.process.pid()]);
        groups.add("Redis", vec![self.redis.pid()]);
        groups.add("PostgreSQL", vec![self.database.pid()]);
    }

    /// Redis of the gateway.
    pub(crate) fn redis(&self) -> &RedisServer {
        &self.redis
    }
}

impl PeerPrograms {
    fn new(folder: &Path, port: u16, redis: &RedisServer, database: &PostgresServer) -> Result<Self> {
        let database = database.url().replace("postgres://", "postgresql+psycopg://");
        let mut variables: Vec<(&'static str, String)> =
            SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        // Long enough for its rules about secrets, and of no use elsewhere.
        let secret = "a-Secret-of-this-test-alone-1234567890";
        for name in [
            "JWT_SECRET_KEY",
            "AUTH_ENCRYPTION_SECRET",
            "BASIC_AUTH_PASSWORD",
            "PLATFORM_ADMIN_PASSWORD",
            "DEFAULT_USER_PASSWORD",
        ] {
            variables.push((name, format!("{secret}-{}", name.to_ascii_lowercase())));
        }
        variables.extend([
            ("HOME", folder.to_string_lossy().into_owned()),
            ("DATABASE_URL", database),
            ("REDIS_URL", format!("redis://127.0.0.1:{}/0", redis.port())),
            // 50 there, which is less than one for each stream.
            ("REDIS_MAX_CONNECTIONS", REDIS_CONNECTIONS.to_string()),
            ("PORT", port.to_string()),
            ("PLATFORM_ADMIN_EMAIL", ADMINISTRATOR.to_owned()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ]);
        let python = std::env::var_os(PYTHON);
        if python.is_none() {
            let packages = std::env::var(PACKAGES).with_context(|| {
                format!("{PACKAGES} does not name the folder of the packages; `cargo xtask fleet` sets it")
            })?;
            variables.push(("PYTHONPATH", packages));
        }
        // Its database and its files of locks go where it is started.
        Ok(Self { python: python.unwrap_or_else(|| "python3".into()), folder: folder.to_owned(), variables })
    }

    /// Runs its Python to the end, and returns what that prints.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.python);
        command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        let done = command.current_dir(&self.folder).stdin(Stdio::null()).output()?;
        ensure!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }
}

/// Registers the server, and returns the name of its tool.
async fn register(port: u16, authorization: &str, server: &str) -> Result<String> {
    let about = json!({ "name": "load", "url": server, "transport": "STREAMABLEHTTP" }).to_string();
    request(port, Method::POST, "/gateways", &about, Some(authorization)).await?;
    let listed = request(port, Method::GET, "/tools?limit=0", "", Some(authorization)).await?;
    let tools = listed.as_array().or_else(|| listed["data"].as_array()).context("no list of tools")?;
    let echo = tools.iter().find(|tool| tool["originalName"] == "echo");
    let name = echo.and_then(|tool| tool["name"].as_str());
    Ok(name.with_context(|| format!("the server's tool is not listed: {listed}"))?.to_owned())
}

async fn request(
    port: u16,
    method: Method,
    path: &str,
    body: &str,
    authorization: Option<&str>,
) -> Result<Value> {
    let mut headers =
        vec![("content-type", "application/json".to_owned()), ("accept", "application/json".to_owned())];
    headers.extend(authorization.map(|value| ("authorization", value.to_owned())));
    let wanted = HttpRequest { port, method, path: path.to_owned(), headers, body: body.to_owned() };
    let answered = timeout(ADMIN_LIMIT, async {
        let response = send(wanted).await?;
        anyhow::Ok((response.status, response.text().await?))
    });
    let (status, text) = answered.await.with_context(|| format!("{path} was not answered"))??;
    if status >= 300 {
        bail!("{path}: {status} {}", text.chars().take(500).collect::<String>());
    }
    serde_json::from_str(&text).with_context(|| format!("{path} is not JSON: {text}"))
}
