//! The secrets of the compose file, and Redis with its configuration and user.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{DeployBench, DeployCheck, Fault, read, run_command};

pub(super) const CHECKS: &[DeployCheck] = &[
    DeployCheck {
        name: "make-secrets.sh: shellcheck",
        examine: |bench, folder| {
            let mut check = bench.python.program("shellcheck");
            check.arg(folder.join("compose/make-secrets.sh"));
            run_command(check, "shellcheck").map(|_| String::new())
        },
        faults: &[Fault("compose/make-secrets.sh", "\"$(dirname \"$0\")\"", "$(dirname $0)")],
    },
    DeployCheck {
        name: "make-secrets.sh, redis.conf: Redis starts and admits the user",
        examine,
        faults: &[
            Fault("compose/redis.conf", "maxmemory-policy noeviction", "maxmemory-policy allkeys-lru"),
            Fault("compose/redis.conf", "appendonly yes", "append-only yes"),
            Fault("compose/make-secrets.sh", "user default off", "user default on nopass ~* +@all"),
            Fault("compose/make-secrets.sh", "| openssl dgst", "| tr 0 1 | openssl dgst"),
        ],
    },
];

/// Arguments: the configuration, the port, the password. Ends Redis, however it goes.
const SCRIPT: &str = r#"
set -eu
redis-server "$1" --port "$2" --bind 127.0.0.1 --dir "$(dirname "$1")" --daemonize no >"$1.log" 2>&1 &
server=$!
trap 'kill $server; wait $server || true' EXIT
ask() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
port=$2
tries=0
until ask ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 $server 2>/dev/null; then tail -n 3 "$1.log" >&2; exit 1; fi
    sleep 0.05
done
# The health check of the compose file succeeds without a password, and nothing else does.
case "$(ask get h:a 2>&1)" in NOAUTH*) ;; *) echo 'Redis admits users without a password' >&2; exit 1;; esac
REDISCLI_AUTH=$(cat "$3")
export REDISCLI_AUTH
own() { ask --user hospes --no-auth-warning "$@" 2>&1; }
[ "$(own set h:a 1)" = OK ] || { echo 'the user is not admitted' >&2; exit 1; }
for denied in 'get other' 'flushall' 'config set maxmemory 1' 'keys *'; do
    set -f
    case "$(own $denied)" in NOPERM*) ;; *) echo "the user may: $denied" >&2; exit 1;; esac
    set +f
done
[ "$(own config get maxmemory-policy | tail -n 1)" = noeviction ] || { echo 'keys are evicted' >&2; exit 1; }
[ "$(own info persistence | tr -d '\r' | grep aof_enabled)" = aof_enabled:1 ] || { echo 'nothing is kept' >&2; exit 1; }
"#;

fn examine(bench: &DeployBench, folder: &Path) -> Result<String> {
    // A folder of its own, because the script writes beside itself.
    let place = bench.folder.join("redis");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    fs::copy(folder.join("compose/make-secrets.sh"), place.join("make-secrets.sh"))?;
    let make = || {
        let mut make = Command::new("sh");
        make.arg(place.join("make-secrets.sh"));
        run_command(make, "make-secrets.sh")
    };
    let done = make()?;
    ensure!(done.stdout.is_empty() && done.stderr.is_empty(), "it prints something");
    let secrets = place.join("secrets");
    let contents = || -> Result<Vec<String>> {
        let names = fs::read_to_string(folder.join("compose/compose.yaml"))?;
        let names =
            names.lines().filter_map(|line| line.split_once("{ file: ./secrets/")?.1.strip_suffix(" }"));
        names.map(|name| read(&secrets, name).with_context(|| format!("secret {name}"))).collect()
    };
    let before = contents()?;
    make()?;
    ensure!(before == contents()?, "secrets that are there are made anew");

    let configuration =
        read(folder, "compose/redis.conf")?.replace("/run/secrets", &secrets.to_string_lossy());
    let file = place.join("redis.conf");
    fs::write(&file, configuration)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut script = Command::new("sh");
    script.args(["-c", SCRIPT, "sh"]).arg(&file).arg(port.to_string()).arg(secrets.join("redis_password"));
    run_command(script, "redis")?;
    Ok(format!("{} secrets", before.len()))
}
