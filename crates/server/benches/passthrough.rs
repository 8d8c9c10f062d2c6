//! The cost of passing completions on, beside a bare proxy of the same model in the same run: processor time and memory per request.
//!
//! ```text
//! cargo bench -p dirigent-server --bench passthrough [-- --streams 1,100,1000] [-- --requests N]
//! ```
//! A model server sends streams of 40 events, one each 5 ms. The service and the proxy, which passes bytes on with axum and reqwest and knows nothing
//! of them, are processes of their own. Both get the same requests, in turns: so many streams at once as a row says. `prompt` is a request without a
//! system message, for which the service reads the base prompt in the journal. Nothing is asserted: the figures depend on the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use dirigent::Dirigent;
use dirigent::config::{Config, Sources};
use dirigent_server::{Server, ServerLimits, ServerOptions, Token};
use futures::StreamExt as _;
use futures::stream::unfold;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tower_service::Service as _;

/// The events of a stream, and the time between them.
const EVENTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// The variables that make this program a service or a proxy.
const ROLE: &str = "BENCH_ROLE";
const UPSTREAM: &str = "BENCH_UPSTREAM";

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[tokio::main]
async fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("service") => service().await,
        Ok("proxy") => proxy().await,
        _ => measure().await,
    }
}

fn upstream() -> String {
    std::env::var(UPSTREAM).expect("the address of the model server")
}

/// Answers the parent, which asks for the processor time in nanoseconds and the highest memory in KiB.
fn report(address: SocketAddr) {
    println!("{address}");
    for _ in std::io::stdin().lines() {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak
            .and_then(|text| text.split_whitespace().next())
            .unwrap_or("0");
        println!("{} {peak}", time.tv_sec * 1_000_000_000 + time.tv_nsec);
    }
    std::process::exit(0);
}

async fn service() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dirigent.toml");
    let settings = format!(
        "[models.small]\nprovider = \"openai\"\nname = \"served\"\nbase_url = \"{}/v1\"\nconcurrent = 4096\n",
        upstream()
    );
    std::fs::write(&file, settings).unwrap();
    let config = Config::load(&Sources::none().file(file)).unwrap();
    let dirigent = Dirigent::builder()
        .journal(folder.path().join("journal.db"))
        .config(&config);
    let token = token(folder.path());
    let workspace = folder.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let options = ServerOptions {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        workspace,
        limits: ServerLimits {
            requests: 4_096,
            connections: 4_096,
            ..ServerLimits::default()
        },
        ..ServerOptions::default()
    };
    let server = Server::bind(dirigent.build().await.unwrap(), token, options)
        .await
        .unwrap();
    let address = server.address();
    std::thread::spawn(move || report(address));
    server.run(std::future::pending()).await.unwrap();
}

fn token(folder: &Path) -> Token {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = folder.join("token");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .unwrap();
    file.write_all(TOKEN.as_bytes()).unwrap();
    Token::load(&path).unwrap()
}

async fn proxy() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let router = Router::new()
        .route("/v1/chat/completions", post(forward))
        .with_state(client);
    let (listener, address) = listen().await;
    std::thread::spawn(move || report(address));
    serve(listener, router).await;
}

async fn forward(State(client): State<reqwest::Client>, body: Bytes) -> Response {
    let request = client.post(format!("{}/v1/chat/completions", upstream()));
    let reply = request
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .send()
        .await
        .unwrap();
    let kind = reply.headers()[CONTENT_TYPE].clone();
    ([(CONTENT_TYPE, kind)], Body::from_stream(reply.bytes_stream())).into_response()
}

/// An event of the model's stream.
fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1764230400,\"model\":\"served\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// The model: a stream of events, each with some words.
async fn model() -> Response {
    let events = unfold(0, async |number| {
        tokio::time::sleep(PAUSE).await;
        let event = match number {
            EVENTS.. => return None,
            number if number + 1 == EVENTS => chunk("", "\"stop\"") + "data: [DONE]\n\n",
            _ => chunk("\"content\":\"some words \"", "null"),
        };
        Some((Ok::<_, Infallible>(event), number + 1))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn serve(listener: TcpListener, router: Router) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let answer = service_fn(move |request| router.clone().call(request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

/// A process that is measured.
struct Measured {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    url: String,
}

impl Measured {
    fn start(role: &str, upstream: &str) -> Measured {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(UPSTREAM, upstream)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        output.read_line(&mut address).unwrap();
        let url = format!("http://{}/v1/chat/completions", address.trim());
        Measured {
            child,
            input,
            output,
            url,
        }
    }

    /// The processor time so far in microseconds, and the highest memory in MiB.
    fn usage(&mut self) -> (f64, f64) {
        writeln!(self.input).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut numbers = line
            .split_whitespace()
            .map(|number| number.parse::<f64>().unwrap());
        (numbers.next().unwrap() / 1e3, numbers.next().unwrap() / 1024.0)
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends requests, so many at once, and checks that each gets a whole stream.
async fn load(client: &reqwest::Client, url: &str, body: &'static str, streams: usize, requests: usize) {
    let requests = futures::stream::iter(0..requests).map(|_| async move {
        let request = client
            .post(url)
            .bearer_auth(TOKEN)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let reply = request.send().await.unwrap();
        assert_eq!(reply.status(), 200);
        let text = reply.text().await.unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    });
    requests.buffer_unordered(streams).collect::<()>().await;
}

fn argument(name: &str) -> Option<String> {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == name)?;
    arguments.get(place + 1).cloned()
}

async fn measure() {
    // `cargo test` runs benchmarks once, to see that they work.
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let levels = argument("--streams").unwrap_or(if is_test { "2" } else { "1,100,1000" }.to_owned());
    let (listener, address) = listen().await;
    tokio::spawn(serve(
        listener,
        Router::new().route("/v1/chat/completions", post(model)),
    ));
    let upstream = format!("http://{address}");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Arc::new(reqwest::Client::builder().no_proxy().build().unwrap());
    let own = r#"{"model":"small","stream":true,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Say some words."}]}"#;
    let base = r#"{"model":"small","stream":true,"messages":[{"role":"user","content":"Say some words."}]}"#;
    println!("microseconds of processor time for each request, and the highest memory in MiB");
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>6} {:>10} {:>10}",
        "streams", "requests", "proxy", "service", "ratio", "proxy MiB", "service MiB"
    );
    for (label, body) in [("", own), (" prompt", base)] {
        for streams in levels.split(',').map(|level| level.parse::<usize>().unwrap()) {
            let wanted = argument("--requests")
                .map_or((streams * 3).max(if is_test { 4 } else { 100 }), |text| {
                    text.parse().unwrap()
                });
            let mut proxy = Measured::start("proxy", &upstream);
            let mut service = Measured::start("service", &upstream);
            let mut spent = [0.0; 2];
            // Alternately, so that both meet the same load of the machine. The first requests make the connections.
            for round in 0..3 {
                for (measured, spent) in [&mut proxy, &mut service].into_iter().zip(&mut spent) {
                    let requests = if round == 0 { streams } else { wanted };
                    let (before, _) = measured.usage();
                    load(&client, &measured.url, body, streams, requests).await;
                    let (after, _) = measured.usage();
                    *spent += if round == 0 { 0.0 } else { after - before };
                }
            }
            let count = (2 * wanted) as f64;
            let [of_proxy, of_service] = spent.map(|time| time / count);
            let (memory, of_service_memory) = (proxy.usage().1, service.usage().1);
            println!(
                "{streams:>8} {wanted:>8} {of_proxy:>8.0} {of_service:>8.0} {:>6.2} {memory:>10.1} {of_service_memory:>10.1}{label}",
                of_service / of_proxy
            );
        }
    }
}
