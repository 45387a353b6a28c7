//! The HTTP endpoints: `/live`, `/ready`, `/state` and `/metrics`, on a thread of their own.
//!
//! Kept true: an answer needs nothing of the other threads but the locks of [`Status`]; one connection carries one
//! request and ends within seconds, so silent clients cannot shut the probes out.

mod connection;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

use self::connection::{Bounded, LONGEST_CONNECTION, MOST_CONNECTIONS};
use super::{metrics::Metrics, state::StateView, status::Status};

/// How long answers in progress may take once the server is told to stop.
const GRACE: Duration = Duration::from_secs(1);

const ENDPOINTS: &str = "\
there is nothing here; the endpoints are
/live     200 while the threads give signs of life
/ready    200 while every check holds; names each
/state    assignment, positions, lags, watermarks, open requests, outbox
/metrics  Prometheus text format
";

/// Why there are no endpoints.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is taken, not ours, or needs a privilege.
    #[error("http endpoints: cannot listen on {address}: {source}; set http.listen to a free address")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The system gave no thread.
    #[error("http endpoints: their thread cannot be started: {0}")]
    Thread(io::Error),
}

impl HttpError {
    /// Somebody else listens there, perhaps not for long: the process that was here before, which is still ending.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
    }
}

/// The running server; it stops when dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Where it listens; of port 0 the one that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, lets answers in progress finish for about a second, and ends.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread of the http endpoints had failed");
        }
    }
}

/// Listens from now on, and answers until the server is dropped.
pub fn serve(
    listen: SocketAddr,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
) -> Result<HttpServer, HttpError> {
    serve_bounded(listen, Seen { status, metrics }, MOST_CONNECTIONS, LONGEST_CONNECTION)
}

fn serve_bounded(
    listen: SocketAddr,
    seen: Seen,
    most: usize,
    longest: Duration,
) -> Result<HttpServer, HttpError> {
    let refused = |source| HttpError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build().map_err(HttpError::Thread)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(refused)?
    };
    let listener = Bounded::new(listener, most, longest);
    let (stop, told) = watch::channel(false);
    let thread = std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || answer(&runtime, listener, router(seen), told))
        .map_err(HttpError::Thread)?;
    tracing::info!(%address, "http endpoints are listening");
    Ok(HttpServer { address, stop, thread: Some(thread) })
}

fn answer(runtime: &Runtime, listener: Bounded, router: Router, told: watch::Receiver<bool>) {
    runtime.block_on(async {
        let drain = stopped(told.clone());
        let mut serving = Box::pin(axum::serve(listener, router).with_graceful_shutdown(drain).into_future());
        tokio::select! {
            _ = &mut serving => return,
            () = stopped(told) => {}
        }
        if tokio::time::timeout(GRACE, serving).await.is_err() {
            tracing::debug!("http connections that are still open are cut off");
        }
    });
}

/// Ends when the server is told to stop, or is gone.
async fn stopped(mut told: watch::Receiver<bool>) {
    while !*told.borrow_and_update() {
        if told.changed().await.is_err() {
            return;
        }
    }
}

#[derive(Clone)]
struct Seen {
    status: Arc<Status>,
    metrics: Arc<Metrics>,
}

fn router(seen: Seen) -> Router {
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
        .route("/state", get(state))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, ENDPOINTS) })
        .layer(from_fn(one_request))
        .with_state(seen)
}

/// The connection closes after its answer: a kept one would run into its time limit between two scrapes.
async fn one_request(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn live(State(seen): State<Seen>) -> Response {
    let heartbeats = seen.status.heartbeats();
    let late: Vec<&str> = heartbeats.iter().filter(|(_, view)| view.late).map(|(&name, _)| name).collect();
    let body = json!({ "live": late.is_empty(), "late": late, "heartbeats": heartbeats });
    (code(late.is_empty()), Json(body)).into_response()
}

async fn ready(State(seen): State<Seen>) -> Response {
    let checks = seen.status.checks();
    let ready = checks.iter().all(|check| check.ok);
    (code(ready), Json(json!({ "ready": ready, "checks": checks }))).into_response()
}

async fn state(State(seen): State<Seen>) -> Json<StateView> {
    Json(seen.status.view())
}

async fn metrics(State(seen): State<Seen>) -> Response {
    match seen.metrics.render(&seen.status) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::warn!(%error, "the metrics cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("the metrics cannot be written: {error}\n"))
                .into_response()
        }
    }
}

fn code(well: bool) -> StatusCode {
    if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

#[cfg(test)]
mod tests;
