//! The key goes to the server and nowhere else, not even where the server says it back.

use dirigent_model::ChatModel;
use dirigent_model::openai::{Delivery, OpenAiModel, OpenAiOptions};

use crate::server::{Answer, Server, request};

const KEY: &str = r#"sk-canary/"quoted"\key"#;

fn check(text: &str) {
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn the_key_is_in_no_error_and_no_debug_output() {
    let in_json = serde_json::to_string(KEY).unwrap();
    let long_way_in = format!("{}{KEY}", " x".repeat(245));
    let bodies = [
        format!(r#"{{"error": {{"message": {in_json}, "type": {in_json}}}}}"#),
        format!(r#"{{"sent": {{"authorization": {in_json}}}}}"#),
        format!("your key is {KEY}"),
        long_way_in,
    ];
    for delivery in [Delivery::Streamed, Delivery::Whole] {
        let mut answers = Vec::new();
        for body in &bodies {
            for status in [
                "200 OK",
                "400 Bad Request",
                "401 Unauthorized",
                "429 Too Many",
                "500 Oops",
            ] {
                answers.push(Answer::json(status, body));
            }
            answers.push(Answer::events(&[body]));
        }
        let moved = format!("location: https://example.com/{KEY}");
        answers.push(Answer::new("302 Found", &[&moved], ""));
        let asked = answers.len();
        let server = Server::start(answers).await;
        let model = OpenAiModel::new(server.options(delivery).api_key(format!(" {KEY}\n"))).unwrap();
        check(&format!("{model:?}"));
        for _ in 0..asked {
            let failure = model.chat(request()).await.unwrap_err();
            check(&format!("{failure} {failure:?}"));
        }
        let sent = format!("authorization: Bearer {KEY}\r\n");
        assert!(server.got()[0].head.contains(&sent), "{}", server.got()[0].head);
    }
}

#[test]
fn options_show_neither_key_nor_what_an_address_may_hold() {
    let options = OpenAiOptions::new("https://me:canary@example.com/v1?key=canary", "m").api_key(KEY);
    check(&format!("{options:?}"));
    check(&OpenAiModel::new(options).unwrap_err().to_string());
}
