//! `http_request`: the connection goes to an address that was checked and nowhere else, and no answer is too long or takes too long.

use std::net::ToSocketAddrs as _;
use std::sync::LazyLock;

use dirigent::core::tool::ToolOutcome;
use dirigent_tests::attack::{Attack, Call, Observation, Scene, Told, check, left_out, nothing_more};
use serde_json::json;

use crate::listeners::{BOMB, tcp, web};

/// It is not the public network, and nobody allowed it.
const NOT_PUBLIC: Told = Told::Refused("refused_address", &[]);

fn get(url: impl Into<String>) -> Call {
    ("http_request", json!({"method": "GET", "url": url.into()}))
}

/// Requests run unasked, and these hosts may be reached.
fn allow<const N: usize>(scene: &Scene, hosts: [&str; N]) {
    scene.settings("[approvals]\nallow = [\"http_request\"]");
    scene.settings(&format!(
        "[http]\nallow = {}\ntimeout = \"60s\"\nmax_bytes = \"64 KiB\"",
        json!(hosts.to_vec())
    ));
}

/// A port of loopback to which nobody may come.
fn forbidden(scene: &Scene) -> u16 {
    allow(scene, []);
    tcp(scene)
}

fn nobody_came(scene: &Scene, _: &Observation) {
    assert_eq!(scene.noticed(), [] as [&str; 0]);
}

#[test]
fn only_the_public_network_is_asked() {
    check([
        Attack {
            name: "loopback_is_not_asked",
            made: |scene| get(format!("http://127.0.0.1:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_by_another_of_its_addresses_is_not_asked",
            made: |scene| get(format!("http://127.99.1.2:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_in_one_number_is_not_asked",
            made: |scene| get(format!("http://2130706433:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_in_octal_is_not_asked",
            made: |scene| get(format!("http://0177.0.0.1:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_in_hexadecimal_is_not_asked",
            made: |scene| get(format!("http://0x7f.1:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_in_wide_digits_is_not_asked",
            made: |scene| get(format!("http://１２７.０.０.１:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_of_ipv6_is_not_asked",
            made: |scene| get(format!("http://[::1]:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "loopback_in_an_address_of_ipv6_is_not_asked",
            made: |scene| get(format!("http://[::ffff:127.0.0.1]:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "any_address_is_not_asked",
            made: |scene| get(format!("http://0.0.0.0:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "the_name_of_loopback_is_not_asked",
            made: |scene| get(format!("http://localhost:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "a_name_below_that_of_loopback_is_not_asked",
            made: |scene| get(format!("http://api.LOCALHOST.:{}/", forbidden(scene))),
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "a_clouds_metadata_are_not_asked",
            made: |scene| {
                allow(scene, []);
                get("http://169.254.169.254/latest/meta-data/iam/security-credentials/")
            },
            told: NOT_PUBLIC,
            then: nothing_more,
        },
        Attack {
            name: "a_clouds_metadata_of_ipv6_are_not_asked",
            made: |scene| {
                allow(scene, []);
                get("http://[fd00:ec2::254]/latest/meta-data/")
            },
            told: NOT_PUBLIC,
            then: nothing_more,
        },
        Attack {
            name: "a_private_network_is_not_asked",
            made: |scene| {
                allow(scene, []);
                get("http://192.168.1.1/")
            },
            told: NOT_PUBLIC,
            then: nothing_more,
        },
        Attack {
            name: "a_private_network_behind_a_prefix_of_ipv6_is_not_asked",
            made: |scene| {
                allow(scene, []);
                get("http://[64:ff9b::10.0.0.1]/")
            },
            told: NOT_PUBLIC,
            then: nothing_more,
        },
        Attack {
            name: "another_port_than_the_allowed_one_is_not_asked",
            made: |scene| {
                let (allowed, other) = (web(scene), tcp(scene));
                allow(scene, [&allowed]);
                get(format!("http://127.0.0.1:{other}/"))
            },
            told: NOT_PUBLIC,
            then: nobody_came,
        },
        Attack {
            name: "a_file_is_not_asked",
            made: |scene| {
                allow(scene, []);
                get("file:///etc/passwd")
            },
            told: Told::Refused("refused", &["file"]),
            then: nothing_more,
        },
        Attack {
            name: "a_request_that_nobody_allowed_waits_for_a_person",
            made: |scene| {
                let allowed = web(scene);
                scene.settings(&format!("[http]\nallow = [\"{allowed}\"]"));
                get(format!("http://{allowed}/plain"))
            },
            told: Told::Asked,
            then: nobody_came,
        },
        Attack {
            name: "a_request_that_is_allowed_is_answered",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                get(format!("http://{allowed}/plain"))
            },
            told: Told::Bounded(&["hello"]),
            then: |scene, _| assert_eq!(scene.noticed(), ["GET /plain"]),
        },
    ]);
}

/// Where the machine has such a name.
#[test]
fn a_name_is_not_asked_for_what_its_resolver_says() {
    if name_of_this_machine().is_none() {
        left_out(
            "a_name_is_not_asked_for_what_its_resolver_says: this machine has no other name for loopback",
        );
        return;
    }
    check([Attack {
        name: "another_name_that_is_resolved_to_loopback_is_not_asked",
        made: |scene| {
            get(format!(
                "http://{}:{}/",
                name_of_this_machine().unwrap(),
                forbidden(scene)
            ))
        },
        told: NOT_PUBLIC,
        then: nobody_came,
    }]);
}

#[test]
fn a_redirect_is_checked_again() {
    check([
        Attack {
            name: "a_redirect_to_loopback_is_not_followed",
            made: |scene| {
                let (allowed, other) = (web(scene), web(scene));
                allow(scene, [&allowed]);
                get(format!("http://{allowed}/go?http://{other}/secret"))
            },
            told: NOT_PUBLIC,
            then: |scene, _| assert_eq!(scene.noticed().len(), 1, "{:?}", scene.noticed()),
        },
        Attack {
            name: "a_redirect_to_a_clouds_metadata_is_not_followed",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                get(format!(
                    "http://{allowed}/go?http://169.254.169.254/latest/meta-data/"
                ))
            },
            told: NOT_PUBLIC,
            then: nothing_more,
        },
        Attack {
            name: "a_redirect_to_a_file_is_not_followed",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                get(format!("http://{allowed}/go?file:///etc/passwd"))
            },
            told: Told::Refused("refused", &[]),
            then: nothing_more,
        },
        Attack {
            name: "redirects_without_an_end_are_given_up",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                get(format!("http://{allowed}/round"))
            },
            told: Told::Refused("too_many_redirects", &[]),
            then: |scene, _| assert!(scene.noticed().len() < 30),
        },
        Attack {
            name: "credentials_are_not_carried_to_another_origin",
            made: |scene| {
                let (one, other) = (web(scene), web(scene));
                allow(scene, [&one, &other]);
                let headers =
                    json!({"Authorization": "Bearer one", "Cookie": "session=one", "X-Api-Key": "one"});
                (
                    "http_request",
                    json!({"method": "GET", "url": format!("http://{one}/go?http://{other}/plain"), "headers": headers}),
                )
            },
            told: Told::Bounded(&["hello"]),
            then: |scene, _| {
                let asked = scene.noticed();
                assert!(asked[0].contains("authorization: bearer one"), "{asked:?}");
                assert_eq!(asked[1], "GET /plain");
            },
        },
        Attack {
            name: "what_may_change_something_is_not_carried_to_another_origin",
            made: |scene| {
                let (one, other) = (web(scene), web(scene));
                allow(scene, [&one, &other]);
                (
                    "http_request",
                    json!({"method": "DELETE", "url": format!("http://{one}/go?http://{other}/all")}),
                )
            },
            told: Told::Refused("refused", &[]),
            then: |scene, _| assert_eq!(scene.noticed().len(), 1, "{:?}", scene.noticed()),
        },
    ]);
}

#[test]
fn an_answer_is_bounded_in_size_and_time() {
    check([
        Attack {
            name: "a_packed_bomb_is_not_unpacked_to_its_end",
            made: |scene| {
                // Packing it takes longer than a request may.
                LazyLock::force(&BOMB);
                from_an_allowed(scene, "bomb")
            },
            told: Told::Bounded(&[]),
            then: truncated,
        },
        Attack {
            name: "a_body_without_an_end_is_cut",
            made: |scene| from_an_allowed(scene, "endless"),
            told: Told::Bounded(&[]),
            then: truncated,
        },
        Attack {
            name: "headers_without_an_end_are_given_up",
            made: |scene| from_an_allowed(scene, "headers"),
            told: Told::Refused("unreachable", &[]),
            then: nothing_more,
        },
        Attack {
            name: "a_server_that_says_nothing_is_given_up",
            made: |scene| {
                let allowed = web(scene);
                scene.settings("[approvals]\nallow = [\"http_request\"]");
                scene.settings(&format!("[http]\nallow = [\"{allowed}\"]\ntimeout = \"1s\""));
                get(format!("http://{allowed}/silent"))
            },
            told: Told::Refused("timed_out", &["1s"]),
            then: nothing_more,
        },
        Attack {
            name: "bytes_that_are_no_text_are_not_shown",
            made: |scene| from_an_allowed(scene, "binary"),
            told: Told::Bounded(&["not_shown"]),
            then: nothing_more,
        },
    ]);
}

#[test]
fn a_request_is_what_it_says() {
    check([
        Attack {
            name: "a_header_with_a_line_break_is_refused",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                let headers = json!({"X-One": "one\r\nAuthorization: two"});
                (
                    "http_request",
                    json!({"method": "GET", "url": format!("http://{allowed}/plain"), "headers": headers}),
                )
            },
            told: Told::Refused("bad_parameters", &[]),
            then: nobody_came,
        },
        Attack {
            name: "a_header_that_names_another_host_is_refused",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                let headers = json!({"Host": "metadata.google.internal"});
                (
                    "http_request",
                    json!({"method": "GET", "url": format!("http://{allowed}/plain"), "headers": headers}),
                )
            },
            told: Told::Refused("refused", &["host"]),
            then: nobody_came,
        },
        Attack {
            name: "an_agent_that_may_only_look_changes_nothing_elsewhere",
            made: |scene| {
                let allowed = web(scene);
                allow(scene, [&allowed]);
                scene.access("read-only");
                (
                    "http_request",
                    json!({"method": "POST", "url": format!("http://{allowed}/plain"), "body": "mine"}),
                )
            },
            told: Told::Refused("access_denied", &[]),
            then: nobody_came,
        },
    ]);
}

/// The whole result says that there was more; what the model is shown of it may end before.
fn truncated(_: &Scene, seen: &Observation) {
    let Some(ToolOutcome::Success { output }) = seen.journaled.as_ref().map(|result| &result.outcome) else {
        panic!("it did not succeed: {}", seen.told);
    };
    assert_eq!(output["truncated"], true);
}

fn from_an_allowed(scene: &Scene, path: &str) -> Call {
    let allowed = web(scene);
    allow(scene, [&allowed]);
    get(format!("http://{allowed}/{path}"))
}

/// A name of this machine that only its resolver knows to be loopback: one in `/etc/hosts` that does not say so by itself.
fn name_of_this_machine() -> Option<String> {
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let entries = hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let names = entries.flat_map(|entry| entry.split_whitespace().skip(1));
    let mut others = names.filter(|name| {
        let says_so = *name == "localhost" || name.ends_with(".localhost");
        !says_so && is_loopback(name)
    });
    others.next().map(str::to_owned)
}

fn is_loopback(name: &str) -> bool {
    let addresses = (name, 0).to_socket_addrs();
    addresses.is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}
