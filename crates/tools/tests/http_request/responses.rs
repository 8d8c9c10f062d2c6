//! Responses as results show them: status, headers, changes, and bodies in their encoding.

use std::io::Write;

use dirigent_core::tool::StateChange;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{answer, call, failure, get, got, parts, rules, serve};
use crate::folder::text;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_response_is_returned_with_its_relevant_headers() {
    let server = serve(|_| {
        let headers = [
            "content-type: application/json",
            "set-cookie: secret=1",
            "x-total-count: 3",
            "alt-svc: h3",
            "content-length: 8",
        ];
        answer("200 OK", &headers, b"{\"a\": 1}")
    })
    .await;
    let result = get(&rules(&[&server]), &server.url("/a?b=c#d")).await;
    let address = server.address().to_string();
    assert_eq!(result.metadata["address"], address);
    assert_eq!(result.changes, []);
    let expected = format!(
        "200 OK {}\ncontent-type: application/json\nx-total-count: 3\n\n{{\"a\": 1}}",
        server.url("/a?b=c")
    );
    assert_eq!(text(result), expected);
    let asked = &server.requests()[0];
    assert_eq!(asked.line(), "GET /a?b=c HTTP/1.1");
    assert_eq!(asked.header("host"), Some(&*address));
    assert_eq!(asked.header("referer"), None);
}

#[tokio::test]
async fn loop_8_an_answered_unsafe_request_is_reported_as_a_change() {
    let server = serve(|_| answer("201 Created", &[], b"")).await;
    let parameters = json!({
        "method": "POST",
        "url": server.url("/items?key=secret"),
        "headers": {"X-Api-Key": "k"},
        "body": {"name": "é"},
    });
    let result = call(&rules(&[&server]), parameters).await;
    let change = StateChange::RequestSent {
        method: "POST".to_owned(),
        url: server.url("/items"),
        status: 201,
    };
    assert_eq!(result.changes, [change]);
    assert!(result.succeeded());
    let asked = &server.requests()[0];
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("x-api-key"), Some("k"));
    assert_eq!(asked.json(), json!({"name": "é"}));
}

#[tokio::test]
async fn loop_7_a_response_with_status_400_or_above_is_a_failure_with_its_body() {
    let server = serve(|_| answer("422 Unprocessable Content", &[], b"name is missing")).await;
    let put = json!({"method": "PUT", "url": server.url("/"), "body": "x"});
    let result = call(&rules(&[&server]), put).await;
    let (code, error, output) = failure(&result);
    assert_eq!(
        (code, error),
        (
            "http_status",
            "the server responded with 422 Unprocessable Entity"
        )
    );
    assert_eq!(
        *output,
        format!("422 Unprocessable Entity {}\n\nname is missing", server.url("/"))
    );
    assert_eq!(result.changes.len(), 1);
}

#[tokio::test]
async fn a_decompression_bomb_is_unpacked_only_up_to_the_limit() {
    let bomb = packed(&vec![b'a'; 50 * 1024 * 1024]);
    assert!(bomb.len() < 100 * 1024);
    let headers = ["content-type: text/plain", "content-encoding: gzip"];
    let result = got(move || answer("200 OK", &headers, &bomb)).await;
    assert_eq!(
        result["notes"],
        json!(["Note: the body is incomplete: 524288 bytes of it were read"])
    );
    assert_eq!(result["body"].as_str().unwrap().len(), 512 * 1024);
}

#[tokio::test]
async fn a_compressed_body_is_decompressed_once_and_other_encodings_are_refused() {
    let once = packed(b"hello");
    let twice = packed(&once);
    let gzip = once.clone();
    assert_eq!(
        got(move || answer("200 OK", &["content-encoding: gzip"], &gzip)).await["body"],
        "hello"
    );
    for encoding in ["gzip, gzip", "br", "zstd"] {
        let bytes = twice.clone();
        let header = format!("content-encoding: {encoding}");
        let server = serve(move |_| answer("200 OK", &[&header], &bytes)).await;
        let result = get(&rules(&[&server]), &server.url("/")).await;
        assert_eq!(failure(&result).0, "refused", "{encoding}");
    }
    let lines = ["content-encoding: gzip", "content-encoding: gzip"];
    let result = got(move || answer("200 OK", &lines, &twice)).await;
    assert_eq!(result["body"], Value::Null);
    let broken = serve(|_| answer("200 OK", &["content-encoding: gzip"], b"no gzip at all")).await;
    let result = get(&rules(&[&broken]), &broken.url("/")).await;
    assert_eq!(failure(&result).0, "unreachable");
}

#[tokio::test]
async fn text_is_read_in_its_charset_and_what_is_not_text_is_not_shown() {
    let of = |kind: &'static str, body: &'static [u8]| async move {
        let result = got(move || answer("200 OK", &[&format!("content-type: {kind}")], body)).await;
        (result["body"].clone(), result["notes"].clone())
    };
    let text = |text: &str| (json!(text), json!([]));
    assert_eq!(
        of("text/plain; charset=ISO-8859-1", b"caf\xe9").await,
        text("café")
    );
    assert_eq!(
        of("text/plain; charset=\"utf-16le\"", b"h\0i\0").await,
        text("hi")
    );
    assert_eq!(
        of("text/html", b"<meta charset='windows-1251'>\xef").await,
        text("<meta charset='windows-1251'>п")
    );
    assert_eq!(
        of("text/plain; charset=nonsense", "é".as_bytes()).await,
        text("é")
    );
    assert_eq!(
        of("application/octet-stream", b"plain all the same").await,
        text("plain all the same")
    );
    let wrong = of("text/plain; charset=utf-8", b"caf\xe9!").await;
    let said = json!(["Note: parts of the body are not valid UTF-8; each is replaced by `\u{fffd}`"]);
    assert_eq!(wrong, (json!("caf\u{fffd}!"), said));
    for kind in ["image/png", "text/plain"] {
        let (body, notes) = of(kind, b"\x89PNG\0\xff").await;
        assert_eq!(body, Value::Null);
        let note = format!("Note: the body is not shown, because it is not text but `{kind}`, 6 bytes");
        assert_eq!(notes, json!([note]));
    }
}

#[tokio::test]
async fn the_text_of_a_page_is_extracted_on_request() {
    let page = "<!doctype html><html><head><title>A &amp; B</title><script>alert('<p>')</script></head>\
                <body><h2>News</h2><p>One <b>bold</b>\n word, <a href=\"/x?a=1&amp;b=2\">a link</a>.</p>\
                <ul><li>first<li>second</ul><!-- hidden --><table><tr><th>k<th>v<tr><td>1<td>2</table>\
                <pre>a\n  b</pre>5 &lt; 6 &#169; caf&eacute; AT&T</body></html>";
    let server = serve(move |_| answer("200 OK", &["content-type: text/html"], page.as_bytes())).await;
    let rules = rules(&[&server]);
    let parameters = json!({"method": "GET", "url": server.url("/"), "as": "text"});
    let shown = parts(&text(call(&rules, parameters).await));
    let expected = "A & B\n\n## News\n\nOne bold word, a link (/x?a=1&b=2).\n\n- first\n- second\n\nk | v\n1 | 2\n\na\n  b\n\n\
                    5 < 6 © café AT&T";
    assert_eq!(shown["body"], expected);
    let raw = parts(&text(get(&rules, &server.url("/")).await));
    assert_eq!(raw["body"], page);
}
