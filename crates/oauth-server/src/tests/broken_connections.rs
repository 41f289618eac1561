//! Nodes on PostgreSQL whose connections break.

use std::sync::{Arc, Mutex};

use hospes_auth::UnixClock;
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};

use super::watched::{Pause, Step, Steps, Watched};
use super::{APP, Ask, Site};
use crate::SqlAuthStore;
use crate::store::tests::settings;

const BOTH: [LinkDirection; 2] = [LinkDirection::ToServer, LinkDirection::ToClient];

/// Bytes before the end of a step at which the connection breaks. The last bytes from the database are the answer of the
/// commit.
const BEFORE_END: [u64; 2] = [2, 40];

/// Records how many bytes had passed at the end of each step.
struct StepEnds {
    proxy: Arc<NetProxy>,
    ends: Arc<Mutex<Vec<[u64; 2]>>>,
}

impl Steps for StepEnds {
    fn before(&self, _: Step) -> Pause<'_> {
        Box::pin(async {})
    }

    fn after(&self, _: Step) {
        self.ends.lock().unwrap().push(BOTH.map(|direction| self.proxy.passed(direction)));
    }
}

/// At whatever step of the redemption of a code the connection to the database breaks, the holder of the code gets
/// tokens, and nobody gets others with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_a_code_gets_tokens_wherever_connections_break() {
    let server = PostgresServer::start(PostgresOptions::default());
    let proxy = Arc::new(NetProxy::to_port(server.port()).await);
    let ends = Arc::new(Mutex::new(Vec::new()));
    let time = Arc::new(UnixClock::system().now().into());
    let site = async |port| {
        let mut through = settings(server.url_at(port));
        through.max_connections = 1;
        let store = SqlAuthStore::connect(through).await.unwrap();
        let steps = StepEnds { proxy: Arc::clone(&proxy), ends: Arc::clone(&ends) };
        Site::on(Arc::new(Watched::new(store, steps)), |_| {}, Arc::clone(&time))
    };
    let (direct, flaky) = (site(server.port()).await, site(proxy.port()).await);
    // The first request of a site also removes expired records.
    direct.tokens().await;
    flaky.tokens().await;
    // Bytes of a redemption on a new connection, at the end of each step.
    let asked = Ask::new();
    let code = direct.code(&asked).await;
    proxy.reset_connections();
    let before = BOTH.map(|direction| proxy.passed(direction));
    ends.lock().unwrap().clear();
    flaky.redeem(&asked, &code).await.tokens();
    let ends = ends.lock().unwrap().clone();
    assert!(ends.len() >= 4, "a code, its mark, and two tokens: {ends:?}");
    for (at, direction) in BOTH.into_iter().enumerate() {
        for bytes in ends.iter().flat_map(|end| BEFORE_END.map(|bytes| end[at] - before[at] - bytes)) {
            let place = format!("{direction:?} after {bytes} bytes");
            let asked = Arc::new(Ask::new());
            let code = direct.code(&asked).await;
            let accepted = proxy.accepted();
            proxy.set(direction, LinkRules::cut_after(bytes));
            proxy.reset_connections();
            let redeeming = tokio::spawn({
                let (flaky, asked, code) = (flaky.clone(), Arc::clone(&asked), code.clone());
                async move { flaky.redeem(&asked, &code).await }
            });
            // The first connection is cut; the next ones pass.
            eventually("a connection", async || {
                (proxy.accepted() > accepted + 1 || redeeming.is_finished()).then_some(())
            })
            .await;
            proxy.heal();
            let answer = redeeming.await.unwrap();
            assert_eq!(answer.status(), http::StatusCode::OK, "{place}: {}", answer.text());
            let (access, refresh) = answer.tokens();
            assert!(direct.is_good(&access).await, "{place}");
            assert_eq!(direct.redeem(&asked, &code).await.error().1, "invalid_grant", "{place}");
            let (access, _) = flaky.refresh(&refresh, APP, &[]).await.tokens();
            assert!(direct.is_good(&access).await, "{place}");
        }
    }
}
