//! A transport that stops receiving messages from a service that does not read Dirigent's messages.
//!
//! Dirigent answers each request of a service. A service that sends requests forever and never reads would fill the memory with answers.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::watch;

/// The number of messages that may wait to be sent. While this many wait, no message is received.
const MAX_UNSENT: usize = 64;

/// A transport with a bounded number of messages that wait to be sent.
pub(crate) struct BoundedTransport<T> {
    inner: T,
    unsent: Arc<watch::Sender<usize>>,
}

impl<T> BoundedTransport<T> {
    pub(crate) fn new(inner: T) -> Self {
        BoundedTransport {
            inner,
            unsent: Arc::new(watch::Sender::new(0)),
        }
    }
}

/// Counts one message while it waits to be sent.
struct Unsent(Arc<watch::Sender<usize>>);

impl Unsent {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Unsent(count.clone())
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let unsent = Unsent::new(&self.unsent);
        let sending = self.inner.send(item);
        async move {
            let _unsent = unsent;
            sending.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        // Never fails, because this transport owns the sender.
        let _ = self
            .unsent
            .subscribe()
            .wait_for(|unsent| *unsent < MAX_UNSENT)
            .await;
        self.inner.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
