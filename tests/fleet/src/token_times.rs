//! Tokens and DPoP proofs at nodes whose clocks differ, for a client whose clock is right.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_auth::{KeyPair, Seed};
use hyper::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, ClusterVariant, NodeCluster};
use crate::http::{HttpRequest, HttpResponse, send};
use crate::node::{FleetNode, MACHINE, MACHINE_SECRET};

/// Maximum difference of the times in a token from the right ones: times have whole seconds, nodes measure the clock of the
/// database every 10 s, and the machine may be busy.
const TOLERANCE_SECONDS: i64 = 5;

/// Lifetime of an access token, in seconds.
const TOKEN_SECONDS: i64 = 600;

/// Starts nodes that issue tokens for proofs, one of them with a wrong clock, and uses each token at each node.
pub(crate) async fn use_tokens(mut options: ClusterOptions, ahead: usize) -> Result<Vec<FleetClaim>> {
    options.folder = options.folder.join("tokens");
    options.policy = None;
    options.variant = ClusterVariant { has_auth: true, node_ahead: Some(ahead), ..ClusterVariant::default() };
    let cluster = NodeCluster::start(&options).await?;
    let client = ProvingClient::new(&cluster)?;
    let count = cluster.nodes.len();
    let (mut used, mut replays, mut violations) = (0, 0, Vec::new());
    let (mut times, mut wrong_times) = (Vec::new(), Vec::new());
    for issuer in 0..count {
        let token = match client.token(issuer).await {
            Ok(token) => token,
            Err(error) => {
                violations.push(format!("node {} issues no token: {error:#}", issuer + 1));
                continue;
            }
        };
        match check_times(&token) {
            Ok(offset) => times.push(format!("{offset:+} s")),
            Err(error) => wrong_times.push(format!("a token of node {}: {error:#}", issuer + 1)),
        }
        for node in 0..count {
            let what = format!("a token of node {} at node {}", issuer + 1, node + 1);
            let proof = match client.accepted_proof(node, issuer, &token).await {
                Ok(proof) => proof,
                Err(error) => {
                    violations.push(format!("{what}: {error:#}"));
                    continue;
                }
            };
            used += 1;
            for other in 0..count {
                match client.call(other, &token, &proof).await?.status {
                    401 => replays += 1,
                    status => violations.push(format!(
                        "{what}: its proof was accepted again at node {}: status {status}",
                        other + 1
                    )),
                }
            }
        }
    }
    let all = count * count;
    let measured = format!(
        "{used} of {all} tokens used, with nonces of other nodes; {replays} of {} replays refused",
        all * count
    );
    let proofs =
        FleetClaim::new("F8", "tokens and DPoP proofs are accepted at each node, once", measured, violations);
    let tokens = FleetClaim::new("F8", "access tokens have the right times", times.join(", "), wrong_times);
    Ok(vec![proofs, tokens])
}

/// Returns the difference between the time of issue in a token and the clock of this process, in seconds.
fn check_times(token: &str) -> Result<i64> {
    let claims = token.split('.').nth(1).context("the token is no JWT")?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    let time = |name: &str| claims[name].as_i64().with_context(|| format!("no `{name}` in {claims}"));
    let now = Timestamp::now().as_second();
    let offset = time("iat")? - now;
    ensure!(offset.abs() <= TOLERANCE_SECONDS, "issued {offset:+} s from now");
    let left = time("exp")? - now;
    ensure!((left - TOKEN_SECONDS).abs() <= TOLERANCE_SECONDS, "expires in {left} s");
    Ok(offset)
}

/// Application with a key, which signs proofs by the clock of this process.
struct ProvingClient {
    ports: Vec<u16>,
    host: String,
    key: KeyPair,
}

impl ProvingClient {
    fn new(cluster: &NodeCluster) -> Result<Self> {
        let host = cluster.auth_host().context("the nodes have no authorization server")?;
        let ports = cluster.nodes.iter().map(FleetNode::port).collect();
        Ok(Self { ports, host, key: KeyPair::generate()? })
    }

    /// Signs a proof for a request to this path.
    fn proof(&self, path: &str, token: Option<&str>, nonce: Option<&str>) -> Result<String> {
        let mut claims = json!({
            "jti": Seed::from_system()?.draw_text(),
            "htm": "POST",
            "htu": format!("http://{}{path}", self.host),
            "iat": Timestamp::now().as_second(),
        });
        if let Some(token) = token {
            claims["ath"] = URL_SAFE_NO_PAD.encode(Sha256::digest(token)).into();
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        Ok(self.key.sign("dpop+jwt", &claims, |header| header.jwk = Some(self.key.public().clone()))?)
    }

    /// Gets a token from a node: the first answer has a nonce, the second the token.
    async fn token(&self, node: usize) -> Result<String> {
        let first = self.ask_for_token(node, None).await?;
        let nonce = first.dpop_nonce.clone().context("no nonce is asked for")?;
        let second = self.ask_for_token(node, Some(&nonce)).await?;
        let (status, text) = (second.status, second.text().await?);
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let token = answer["access_token"].as_str();
        token.map(str::to_owned).with_context(|| format!("status {status}: {text}"))
    }

    async fn ask_for_token(&self, node: usize, nonce: Option<&str>) -> Result<HttpResponse> {
        let login = STANDARD.encode(format!("{MACHINE}:{MACHINE_SECRET}"));
        let resource = format!("http%3A%2F%2F{}%2Fmcp", self.host.replace(':', "%3A"));
        self.send(
            node,
            "/token",
            vec![
                ("content-type", "application/x-www-form-urlencoded".to_owned()),
                ("authorization", format!("Basic {login}")),
                ("dpop", self.proof("/token", None, nonce)?),
            ],
            format!("grant_type=client_credentials&scope=mcp&resource={resource}"),
        )
        .await
    }

    /// Uses a token at a node, with a nonce of another one, and returns the proof.
    async fn accepted_proof(&self, node: usize, nonce_of: usize, token: &str) -> Result<String> {
        let asked = self.call(nonce_of, token, &self.proof("/mcp", Some(token), None)?).await?;
        let nonce = asked.dpop_nonce.clone();
        let nonce = nonce.with_context(|| format!("no nonce is asked for: status {}", asked.status))?;
        let proof = self.proof("/mcp", Some(token), Some(&nonce))?;
        let response = self.call(node, token, &proof).await?;
        let status = response.status;
        ensure!(status == 200, "status {status}: {}", response.text().await?);
        Ok(proof)
    }

    /// Lists the tools at a node.
    async fn call(&self, node: usize, token: &str, proof: &str) -> Result<HttpResponse> {
        let revision = "2026-07-28";
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": { "name": "tokens", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        }}});
        let headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("mcp-protocol-version", revision.to_owned()),
            ("mcp-method", "tools/list".to_owned()),
            ("authorization", format!("DPoP {token}")),
            ("dpop", proof.to_owned()),
        ];
        self.send(node, "/mcp", headers, body.to_string()).await
    }

    async fn send(
        &self,
        node: usize,
        path: &str,
        mut headers: Vec<(&'static str, String)>,
        body: String,
    ) -> Result<HttpResponse> {
        headers.push(("host", self.host.clone()));
        let (port, method, path) = (self.ports[node], Method::POST, path.to_owned());
        let sent = send(HttpRequest { port, method, path, headers, body });
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, sent).await.context("no answer within 30 s")?
    }
}
