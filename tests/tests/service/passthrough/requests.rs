//! What the model's server gets.

use dirigent_model_server::{Script, Turn};
use serde_json::{Value, json};

use super::{COMPLETIONS, Door, error, says, with};

fn script() -> Script {
    Script::from_fn(|_| Turn::text("Fine."))
}

/// The fields of the last request that the server got.
fn sent(door: &Door) -> Value {
    door.upstream.requests().last().unwrap().body.clone()
}

#[tokio::test]
async fn prompt_3_everything_but_the_models_name_is_sent_as_the_client_wrote_it() {
    let door = Door::open(script()).await;
    let own = r#"{"vendor_field": {"z": 1.50, "a": [12345678901234567890123]}, "temperature":0.30, "messages":[{"role":"system","content":"I\u0020am"},{"role":"user","content":[{"type":"text","text":"hi","cache":true}],"name":"ann"}], "model":"small" ,"user":"ann"}"#;
    let request = door.server.client.request("POST", COMPLETIONS, &[], None);
    let head = String::from_utf8(request).unwrap();
    let head = head.replace(
        "content-length: 0",
        &format!("content-type: application/json\r\ncontent-length: {}", own.len()),
    );
    let reply = door.server.client.raw(format!("{head}{own}").as_bytes()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let request = door.upstream.requests().pop().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&request.http.body),
        r#"{"vendor_field":{"z": 1.50, "a": [12345678901234567890123]},"temperature":0.30,"messages":[{"role":"system","content":"I\u0020am"},{"role":"user","content":[{"type":"text","text":"hi","cache":true}],"name":"ann"}],"model":"served-name","user":"ann"}"#
    );
    let token = door.server.client.token.clone().unwrap();
    assert!(
        !request.http.head.contains(&token),
        "the service's token went to the model's server"
    );
    door.close().await;
}

#[tokio::test]
async fn prompt_3_no_tool_is_added_and_the_clients_tools_stay() {
    let door = Door::open(script()).await;
    door.post(&says("hi")).await.with_status(200);
    assert_eq!(sent(&door)["tools"], Value::Null);
    let tools = json!([{"type": "function", "function": {
        "name": "look", "strict": true, "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
    }}]);
    let request = with(says("hi"), json!({"tools": tools, "tool_choice": "required"}));
    door.post(&request).await.with_status(200);
    assert_eq!(
        (&sent(&door)["tools"], &sent(&door)["tool_choice"]),
        (&tools, &json!("required"))
    );
    door.close().await;
}

#[tokio::test]
async fn prompt_3_the_base_prompt_is_added_only_where_the_client_has_no_instructions() {
    let door = Door::open(script()).await;
    let prompts = door.server.dirigent.system_prompts();
    prompts.create("bakery", "You sell bread.").await.unwrap();
    let default = prompts.get("default", None).await.unwrap().text;
    let client = &door.server.client;
    let bakery = [("x-system-prompt-id", "bakery")];
    let hi = json!({"role": "user", "content": "hi"});
    for (headers, messages, expected) in [
        (
            &[][..],
            json!([hi]),
            json!([{"role": "system", "content": default}, hi]),
        ),
        (
            &bakery[..],
            json!([hi]),
            json!([{"role": "system", "content": "You sell bread."}, hi]),
        ),
        (
            &[][..],
            json!([{"role": "system", "content": "x"}, hi]),
            json!([{"role": "system", "content": "x"}, hi]),
        ),
        (
            &bakery[..],
            json!([{"role": "developer", "content": "x"}, hi]),
            json!([{"role": "developer", "content": "x"}, hi]),
        ),
    ] {
        let request = json!({"model": "small", "messages": messages});
        client
            .send("POST", COMPLETIONS, headers, Some(&request))
            .await
            .with_status(200);
        assert_eq!(sent(&door)["messages"], expected);
    }
    let unknown = client
        .send(
            "POST",
            COMPLETIONS,
            &[("x-system-prompt-id", "nothing")],
            Some(&says("hi")),
        )
        .await;
    let (status, error) = error(&unknown);
    assert_eq!((status, &error["code"]), (404, &json!("unknown_system_prompt")));
    assert_eq!(door.upstream.requests().len(), 4);
    door.close().await;
}

#[tokio::test]
async fn host_3_fields_of_the_configuration_are_added_where_the_client_has_none() {
    let door = Door::with_settings(script(), "extra = { top_k = 5, seed = 1 }").await;
    door.post(&with(says("hi"), json!({"seed": 7})))
        .await
        .with_status(200);
    assert_eq!(
        (&sent(&door)["top_k"], &sent(&door)["seed"]),
        (&json!(5), &json!(7))
    );
    door.close().await;
}

#[tokio::test]
async fn prompt_3_an_image_of_some_megabytes_is_passed_on() {
    let door = Door::open(script()).await;
    let image = format!("data:image/png;base64,{}", "A".repeat(5 << 20));
    let content = json!([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": image}}]);
    let request = json!({"model": "small", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": content}]});
    door.post(&request).await.with_status(200);
    assert_eq!(sent(&door)["messages"], request["messages"]);
    door.close().await;
}
