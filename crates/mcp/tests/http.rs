//! Services behind a URL.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use dirigent_mcp::{Endpoint, ServiceConfig, ServiceName, UrlEndpoint};
use serde_json::json;
use url::Url;

use crate::support::{call, services, shown};

/// A server that is killed when this is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(headers: &[String]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http_server.py");
        let mut child = Command::new("/usr/bin/python3")
            .arg(script)
            .args(headers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Server {
            child,
            port: line.trim().parse().unwrap(),
        }
    }

    fn config(&self, header: &str) -> ServiceConfig {
        let endpoint = UrlEndpoint {
            url: Url::parse(&format!("http://127.0.0.1:{}/mcp", self.port)).unwrap(),
            headers: [("X-Team".to_owned(), header.into())].into(),
            bearer_token_env: Some("CARGO_PKG_NAME".to_owned()),
        };
        ServiceConfig::new(ServiceName::new("test").unwrap(), Endpoint::Url(endpoint))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn mcp_1_a_service_behind_a_url_is_reached_with_its_headers_and_token() {
    let token = format!("Authorization=Bearer {}", env!("CARGO_PKG_NAME"));
    let server = Server::start(&[token, "X-Team=blue".to_owned()]);
    let services = services(vec![server.config("${NO_TEAM:-blue}")]).await;
    services.start("test").await.unwrap();
    assert_eq!(shown(&call(&services, "echo", json!({"text": "hi"})).await), "hi");
    services.stop("test").await.unwrap();
}

#[tokio::test]
async fn mcp_1_a_server_that_refuses_is_an_error() {
    let server = Server::start(&["X-Team=blue".to_owned()]);
    let services = services(vec![server.config("red")]).await;
    let error = services.start("test").await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the service test has failed: it cannot be used: HTTP status 401: check `bearer_token_env`"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn mcp_1_an_address_without_a_server_is_an_error_in_plain_words() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = UrlEndpoint {
        url: Url::parse(&format!("http://{}/mcp", listener.local_addr().unwrap())).unwrap(),
        headers: Default::default(),
        bearer_token_env: None,
    };
    drop(listener);
    let config = ServiceConfig::new(ServiceName::new("test").unwrap(), Endpoint::Url(endpoint));
    let services = services(vec![config]).await;
    assert_eq!(
        services.start("test").await.unwrap_err().to_string(),
        "the service test has failed: it cannot be reached: Connection refused (os error 111): check that it runs, and that `url` is its address"
    );
}
