//! What attacks try to reach: listeners that write down who came.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;

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
pub struct Web {
    address: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Starts one; returns its host and port.
    pub fn start(scene: &Scene) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (over, notebook) = (Arc::new(AtomicBool::new(false)), scene.notebook());
        let thread = std::thread::spawn({
            let over = over.clone();
            move || {
                let mut held = Vec::new();
                for stream in listener.incoming().flatten() {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    let notebook = notebook.clone();
                    held.push(stream.try_clone().unwrap());
                    // It ends when whoever asked hangs up, or the server does.
                    std::thread::spawn(move || answer(stream, &notebook));
                }
                for stream in held {
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                }
            }
        });
        scene.keep(Web {
            address: address.clone(),
            over,
            thread: Some(thread),
        });
        address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // So that it looks.
        let _ = TcpStream::connect(&self.address);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(mut stream: TcpStream, notebook: &Mutex<Vec<String>>) {
    let Some(path) = read_request(&stream, notebook) else {
        return;
    };
    let _ = match path.split_once('?').unwrap_or((&path, "")) {
        ("/go", url) => head(
            &mut stream,
            "302 Found",
            &format!("Location: {url}\r\nContent-Length: 0"),
        ),
        ("/round", _) => head(&mut stream, "302 Found", "Location: /round\r\nContent-Length: 0"),
        ("/bomb", _) => {
            let body = &*BOMB;
            let headers = format!(
                "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: {}",
                body.len()
            );
            head(&mut stream, "200 OK", &headers).and_then(|()| stream.write_all(body))
        }
        ("/endless", _) => {
            let _ = head(
                &mut stream,
                "200 OK",
                "Content-Type: text/plain\r\nConnection: close",
            );
            let part = "endless ".repeat(1024);
            while stream.write_all(part.as_bytes()).is_ok() {}
            Ok(())
        }
        ("/headers", _) => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
            let header = format!("X-Much: {}\r\n", "much ".repeat(1000));
            while stream.write_all(header.as_bytes()).is_ok() {}
            Ok(())
        }
        ("/silent", _) => {
            // Until it is hung up.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            Ok(())
        }
        ("/binary", _) => head(
            &mut stream,
            "200 OK",
            "Content-Type: application/octet-stream\r\nContent-Length: 4",
        )
        .and_then(|()| stream.write_all(&[0xff, 0x00, 0xfe, 0x01])),
        (_, _) => head(
            &mut stream,
            "200 OK",
            "Content-Type: text/plain\r\nContent-Length: 5",
        )
        .and_then(|()| stream.write_all(b"hello")),
    };
}

fn head(stream: &mut TcpStream, status: &str, headers: &str) -> std::io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n").as_bytes())
}

/// The path asked for; notes it with the credentials that came with it.
fn read_request(stream: &TcpStream, notebook: &Mutex<Vec<String>>) -> Option<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut noted = first.trim_end_matches(" HTTP/1.1").to_owned();
    let path = first.split(' ').nth(1)?.to_owned();
    for line in lines {
        let line = line.ok()?;
        if line.is_empty() {
            break;
        }
        let lower = line.to_lowercase();
        if ["authorization:", "cookie:", "x-api-key:"]
            .iter()
            .any(|name| lower.starts_with(name))
        {
            noted.push_str(&format!(" ({lower})"));
        }
    }
    notebook.lock().unwrap().push(noted);
    Some(path)
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
