//! The connections of clients: accepts them, limits them, and ends them in order.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tower_service::Service as _;

use crate::service::Service;

/// The pause after a connection could not be accepted, as when the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The open connections, each with its task. Dropping it ends them.
pub(crate) struct Connections {
    router: Router,
    service: Service,
    permits: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

impl Connections {
    pub(crate) fn new(router: Router, service: Service) -> Self {
        Connections {
            router,
            permits: Arc::new(Semaphore::new(service.options.limits.connections)),
            service,
            tasks: JoinSet::new(),
        }
    }

    /// Accepts connections until `shutdown` is ready.
    pub(crate) async fn accept(&mut self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                Some(ended) = self.tasks.join_next() => report(ended),
                accepted = next(&listener, &self.permits) => {
                    let Some((stream, permit)) = accepted else { continue };
                    let serving = serve(stream, self.router.clone(), self.service.clone());
                    self.tasks.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
            }
        }
    }

    /// Waits until all connections are closed, and closes those that are still open at the deadline.
    pub(crate) async fn close(mut self, deadline: Instant) {
        while let Ok(Some(ended)) = timeout_at(deadline, self.tasks.join_next()).await {
            report(ended);
        }
        self.tasks.shutdown().await;
    }
}

/// Accepts a connection as soon as another one is allowed; `None` if that failed.
async fn next(listener: &TcpListener, permits: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            tracing::warn!("cannot accept a connection: {error}");
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a request failed because of a defect in the server: {error}");
    }
}

/// Answers the requests of a connection until the client closes it, or the server shuts down.
async fn serve(stream: TcpStream, router: Router, service: Service) {
    let limits = &service.options.limits;
    // Events are to arrive at once. A connection without the options works as well.
    let _ = stream.set_nodelay(true);
    limit_send_time(&stream, limits.send_time);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes.max(8 << 10));
    let answer = service_fn(move |request: hyper::Request<Incoming>| router.clone().call(request));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = service.stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// Has the system close a connection whose client acknowledges nothing for this time.
#[cfg(target_os = "linux")]
fn limit_send_time(stream: &TcpStream, time: Duration) {
    let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds);
}

#[cfg(not(target_os = "linux"))]
fn limit_send_time(_: &TcpStream, _: Duration) {}
