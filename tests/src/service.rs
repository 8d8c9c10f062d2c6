//! A server of this process, on a free port.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{Ipv4Addr, SocketAddr};

use dirigent::model::ChatModel;
use dirigent::{Dirigent, Goal, RunId};
use dirigent_server::{Server, ServerError, ServerOptions, Token};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::http_client::Client;
use crate::stage::{Stage, until_free};

/// A running server with its workspace and journal.
pub struct TestServer {
    /// The workspace and the journal.
    pub stage: Stage,
    /// The orchestrator that the server uses.
    pub dirigent: Dirigent,
    /// A client with the token.
    pub client: Client,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ServerError>>,
}

impl TestServer {
    /// Starts a server whose runs ask this model.
    pub async fn start(stage: Stage, model: impl ChatModel) -> TestServer {
        TestServer::with_options(stage, model, |options| options).await
    }

    /// Starts a server with changed options.
    pub async fn with_options(
        stage: Stage,
        model: impl ChatModel,
        change: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> TestServer {
        let dirigent = stage.builder(model).build().await.unwrap();
        TestServer::serve(stage, dirigent, change).await
    }

    /// Starts a server of an orchestrator, whose journal is that of the stage.
    pub async fn serve(
        stage: Stage,
        dirigent: Dirigent,
        change: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> TestServer {
        let file = stage.journal().with_extension("token");
        let loaded = Token::load_or_create(&file).unwrap();
        let options = change(ServerOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            workspace: stage.workspace(),
            token_file: Some(file.clone()),
            ..ServerOptions::default()
        });
        let server = Server::bind(dirigent.clone(), loaded.token, options)
            .await
            .unwrap();
        let client = Client {
            address: server.address(),
            token: Some(std::fs::read_to_string(file).unwrap().trim().to_owned()),
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async { drop(stopped.await) }));
        TestServer {
            stage,
            dirigent,
            client,
            stop: Some(stop),
            task,
        }
    }

    /// Starts a run, and returns its address, such as `/v1/runs/ID`.
    pub async fn start_run(&self, body: &Value) -> String {
        let started = self.client.post("/v1/runs", body).await;
        started.with_status(201);
        started.header("location").to_owned()
    }

    /// Begins a conversation, and returns its address.
    pub async fn begin_conversation(&self, body: &Value) -> String {
        let created = self.client.post("/context", body).await;
        created.with_status(201);
        created.header("location").to_owned()
    }

    /// Waits for the end of a run, through the library.
    pub async fn until_ended(&self, address: &str) {
        let run: RunId = address.rsplit('/').next().unwrap().parse().unwrap();
        let mut events = self.dirigent.events(run, 0);
        while events.next().await.is_some() {}
        until_free(&self.dirigent, run).await;
    }

    /// Begins the end of the server.
    pub fn begin_to_stop(&mut self) {
        let _ = self.stop.take().expect("the server runs").send(());
    }

    /// Waits for the end of the server.
    pub async fn stopped(self) -> Stage {
        self.task.await.unwrap().unwrap();
        self.stage
    }

    /// Ends the server.
    pub async fn stop(mut self) -> Stage {
        self.begin_to_stop();
        self.stopped().await
    }

    /// A goal in the server's workspace.
    pub fn goal(&self, text: &str) -> Goal {
        self.stage.goal(text)
    }
}
