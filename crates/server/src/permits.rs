//! Limits the number of requests that are under way at once, event streams included.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::Problem;
use crate::service::Service;

/// Refuses a request while too many others are under way.
pub(crate) async fn limit_requests(State(service): State<Service>, request: Request, next: Next) -> Response {
    let Ok(permit) = service.permits.clone().try_acquire_owned() else {
        return Problem::too_many_requests().into_response();
    };
    let response = next.run(request).await;
    response.map(|body| {
        Body::new(CountedBody {
            body,
            _permit: permit,
        })
    })
}

/// The body of a response, which counts as a request under way until it was sent or its client has gone.
struct CountedBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
