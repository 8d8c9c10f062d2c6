//! Completes requests that change something even if their client goes away meanwhile. If such a request were dropped half-way, it could leave
//! a run that was created and never began.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::problem::Problem;

/// Handles a request that may change something in a task of its own.
pub(crate) async fn complete_changes(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => Problem::internal(&error).into_response(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use tokio::sync::Notify;
    use tower_service::Service as _;

    use super::*;

    #[tokio::test]
    async fn a_change_ends_although_its_client_has_gone() {
        let (begun, gate, ended) = (
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
            Arc::new(Notify::new()),
        );
        let handler = {
            let (begun, gate, ended) = (begun.clone(), gate.clone(), ended.clone());
            async move || {
                begun.notify_one();
                gate.notified().await;
                ended.notify_one();
            }
        };
        let mut router = Router::new()
            .route("/", post(handler))
            .layer(from_fn(complete_changes));
        let request = Request::post("/").body(Body::empty()).unwrap();
        let mut reply = router.call(request);
        tokio::select! {
            biased;
            _ = &mut reply => {}
            () = begun.notified() => {}
        }
        drop(reply);
        gate.notify_one();
        ended.notified().await;
    }
}
