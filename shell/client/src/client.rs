//! The client: connecting, and what all calls share.

use crate::error::Error;
use crate::link::{Link, What, Wish};
use crate::links::Links;
use crate::routes::Routes;
use crate::session::Session;
use atoll_protocol::Table;
use atoll_types::Rng;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Between two tries to reach anybody at all.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The table is asked for at most this often.
const TABLE_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a call may take, with all of its attempts.
    pub deadline: Duration,
    /// How long one attempt waits for an answer before another node is asked. No shorter than a failover takes, or
    /// every write to a bucket that is moving is sent more than once, which is wasteful but harmless.
    pub attempt: Duration,
    /// Calls under way; whoever comes on top waits.
    pub calls: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { deadline: Duration::from_secs(10), attempt: Duration::from_secs(2), calls: 1024 }
    }
}

/// Cheap to clone; all clones share connections, table and session.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) routes: Arc<Routes>,
    pub(crate) links: Arc<Links>,
    session: Mutex<Arc<Session>>,
    /// Held by whoever opens the next session.
    pub(crate) opening: tokio::sync::Mutex<()>,
    /// How long a session is used.
    pub(crate) session_age: Duration,
    calls: Semaphore,
    rng: Mutex<Rng>,
    refresher: JoinHandle<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

impl Client {
    /// Any nodes of the cluster, by the addresses of their RESP ports; the others are found through them.
    pub async fn connect<A: Into<String>>(addresses: impl IntoIterator<Item = A>) -> Result<Client, Error> {
        Client::connect_with(addresses, Settings::default()).await
    }

    pub async fn connect_with<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
        settings: Settings,
    ) -> Result<Client, Error> {
        let routes = Arc::new(Routes::new(addresses.into_iter().map(Into::into).collect()));
        let links = Arc::new(Links::default());
        let link = first_link(&routes, &links, settings.deadline).await?;
        let refresher = tokio::spawn(refresh(routes.clone(), links.clone(), settings.attempt));
        // A bucket that has never heard of a session takes it only while it is new.
        let session_age = Duration::from_millis(u64::from(link.limits.session_idle)) / 4;
        let inner = Inner {
            routes,
            links,
            session: Mutex::new(Session::new(link.opened)),
            opening: tokio::sync::Mutex::new(()),
            session_age,
            calls: Semaphore::new(settings.calls.max(1)),
            rng: Mutex::new(Rng::new(seed())),
            refresher,
            settings,
        };
        Ok(Client { inner: Arc::new(inner) })
    }
}

impl Inner {
    pub(crate) fn session(&self) -> Arc<Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn use_session(&self, session: Arc<Session>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// A place among the calls under way. None: there was none in time.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        match timeout(self.settings.deadline, self.calls.acquire()).await {
            Ok(Ok(permit)) => Some(permit),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// From half of it to all of it, so that those who failed together do not come back together.
    pub(crate) fn jittered(&self, span: Duration) -> Duration {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).between(span / 2, span)
    }
}

fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Connects to the first that answers, and learns the table from it.
async fn first_link(routes: &Routes, links: &Links, within: Duration) -> Result<Arc<Link>, Error> {
    let until = Instant::now() + within;
    let mut last = "no address was given".to_owned();
    loop {
        let addresses = routes.addresses();
        for address in &addresses {
            match links.to(address).await {
                Ok(link) => {
                    match table(&link, within).await {
                        Some(table) => routes.learn(table),
                        None => routes.stale.notify_one(),
                    }
                    return Ok(link);
                }
                Err(why) => last = why,
            }
        }
        if addresses.is_empty() || Instant::now() + CONNECT_PAUSE >= until {
            return Err(Error::Unreachable { within, last });
        }
        sleep(CONNECT_PAUSE).await;
    }
}

async fn table(link: &Link, patience: Duration) -> Option<Table> {
    let mut pending = link.send(&Wish::Table).ok()?;
    match timeout(patience, pending.answer()).await.ok()??.what {
        What::Table(table) => Some(table),
        What::Done(_) | What::NotApplied { .. } | What::Unknown | What::Session(_) => None,
    }
}

/// Fetches the table whenever somebody found it wanting, for as long as there is a client.
async fn refresh(routes: Arc<Routes>, links: Arc<Links>, patience: Duration) {
    loop {
        routes.stale.notified().await;
        for address in routes.addresses() {
            let Ok(link) = links.to(&address).await else { continue };
            if let Some(table) = table(&link, patience).await {
                debug!(address, version = table.version, "a table");
                routes.learn(table);
                break;
            }
            link.end_if_silent(patience);
        }
        links.keep_only(&routes.addresses());
        sleep(TABLE_PAUSE).await;
    }
}
