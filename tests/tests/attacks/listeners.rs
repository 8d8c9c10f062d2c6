//! What attacks try to reach: listeners that write down who came.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, LazyLock, Mutex};

use dirigent_model_server::{HttpAnswer, HttpRequest, HttpServer, Then};
use dirigent_tests::attack::Scene;

/// A TCP port that nobody may come to.
pub fn tcp(scene: &Scene) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    watch(scene, move || listener.accept().is_ok());
    port
}

/// A UDP port to which nobody may send.
pub fn udp(scene: &Scene) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    socket.set_nonblocking(true).unwrap();
    watch(scene, move || socket.recv(&mut [0; 16]).is_ok());
    port
}

/// A local service's socket beside the workspace, that nobody may come to; returns its path.
pub fn service(scene: &Scene) -> String {
    // Beside the folder of which no change is allowed, so that the socket can be there.
    let path = scene.place.folder().join("service");
    let listener = UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    watch(scene, move || listener.accept().is_ok());
    path.to_str().unwrap().to_owned()
}

/// Looks who came when the run has finished: the system has kept them waiting.
fn watch(scene: &Scene, came: impl FnMut() -> bool + Send + 'static) {
    scene.keep(Watch {
        came: Box::new(came),
        notebook: scene.notebook(),
    });
}

struct Watch {
    came: Box<dyn FnMut() -> bool + Send>,
    notebook: Arc<Mutex<Vec<String>>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if (self.came)() {
            self.notebook.lock().unwrap().push("somebody came".to_owned());
        }
    }
}

/// A web server on loopback that is up to no good. Every request is written down with its path and its credentials.
///
/// | path | answer |
/// | --- | --- |
/// | `/plain` | `hello` |
/// | `/go?URL` | a redirect to it |
/// | `/round` | a redirect to itself |
/// | `/bomb` | 64 MiB of nothing in 64 KiB of gzip |
/// | `/endless` | a body without an end |
/// | `/silent` | nothing |
/// | `/headers` | headers without an end |
/// | `/binary` | bytes that are no text |
///
/// Returns its host and port.
pub fn web(scene: &Scene) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let notebook = scene.notebook();
    let answer = move |request: &HttpRequest| {
        let target = request.line().trim_end_matches(" HTTP/1.1");
        let lines = request.head.to_lowercase();
        let is_credential = |line: &&str| {
            let mut names = ["authorization:", "cookie:", "x-api-key:"].into_iter();
            names.any(|name| line.starts_with(name))
        };
        let credentials: String = lines
            .lines()
            .filter(is_credential)
            .map(|line| format!(" ({line})"))
            .collect();
        notebook.lock().unwrap().push(format!("{target}{credentials}"));
        answer(target.split_once(' ').unwrap().1)
    };
    let server = runtime.block_on(HttpServer::from_fn(answer)).unwrap();
    let address = server.address().to_string();
    scene.keep((server, runtime));
    address
}

fn answer(path: &str) -> HttpAnswer {
    let text = "content-type: text/plain";
    let redirect = |url: &str| HttpAnswer::new("302 Found", &[&format!("location: {url}")], "");
    match path.split_once('?').unwrap_or((path, "")) {
        ("/go", url) => redirect(url),
        ("/round", _) => redirect("/round"),
        ("/bomb", _) => HttpAnswer::new("200 OK", &[text, "content-encoding: gzip"], &*BOMB),
        ("/endless", _) => HttpAnswer::new("200 OK", &[text], "").then(Then::Repeat(&[b'x'; 8192])),
        ("/headers", _) => HttpAnswer::raw("HTTP/1.1 200 OK\r\n").then(Then::Repeat(b"X-Much: much\r\n")),
        ("/silent", _) => HttpAnswer::silence(),
        ("/binary", _) => {
            let kind = "content-type: application/octet-stream";
            HttpAnswer::new("200 OK", &[kind], [0xff, 0x00, 0xfe, 0x01])
        }
        (_, _) => HttpAnswer::new("200 OK", &[text], "hello"),
    }
}

/// Gzip of 64 MiB of zeros.
pub static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let packed = std::process::Command::new("sh")
        .args(["-c", "head -c 67108864 /dev/zero | gzip -1"])
        .output()
        .unwrap();
    assert!(packed.status.success() && packed.stdout.len() < 1_000_000);
    packed.stdout
});
