//! Rules about addresses on the web: no spelling of an address gets past them (APPROVE-1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dirigent_core::policy::Ruling;
use serde_json::json;

use crate::policy::fits;

#[test]
fn approve_1_a_rule_that_allows_a_host_is_not_tricked_into_another() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    for pattern in ["https://docs.rs/*", "https://docs.rs*"] {
        for url in [
            "https://docs.rs/",
            "https://docs.rs",
            "HTTPS://Docs.RS:443/serde",
            "https://docs.rs/search?a=1&b=2;c|d",
            "https://docs.rs/a/../b",
            "https://docs.rs/https://x/",
        ] {
            assert!(fits(pattern, url), "{pattern} {url}");
        }
        for url in [
            "https://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
            "https://docs.rs:pw@evil.example/",
            "https://docs.rs\\@evil.example/",
            "https://docs.rs%2f@evil.example/",
            "https://user@docs.rs/",
            "https://docs.rs:8443/",
            "http://docs.rs/",
            "https://evil.example/https://docs.rs/",
            "https://evil.example/?https://docs.rs/",
            "https://evil.example\t/docs.rs/",
            "ftp://docs.rs/",
            "docs.rs/",
            "",
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }
}

#[test]
fn approve_1_a_star_in_a_host_or_path_matches_only_within_this_part() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    assert!(fits("https://*.example.com/*", "https://a.example.com/b"));
    for url in [
        "https://evil.example/.example.com/",
        "https://evil.example?.example.com/",
        "https://evil.example#.example.com/",
        "https://evil.example\\.example.com/",
        "https://evil.example:80@x.example.com/",
    ] {
        assert!(!fits("https://*.example.com/*", url), "{url}");
    }
    let public = "https://api.example/public/*";
    assert!(fits(public, "https://api.example/public/a"));
    for url in [
        "https://api.example/public/../private",
        "https://api.example/public/%2e%2E/private",
        "https://api.example/public/.\t./private",
        "https://api.example/public/..\\private",
        "https://api.example/public/..%2fprivate",
        "https://api.example/public/%2E.%5Cprivate",
        "https://api.example/public",
    ] {
        assert!(!fits(public, url), "{url}");
    }
    assert!(fits("https://*", "https://anything.example/at?all"));
    assert!(!fits("https://*", "http://anything.example/"));
    assert!(fits("https://a.example/x", "https://a.example/x"));
    assert!(!fits("https://a.example/x", "https://a.example/xy"));
}

#[test]
fn approve_1_a_rule_that_denies_a_host_does_so_in_every_spelling() {
    for url in [
        "https://evil.example",
        "HTTPS://EVIL.example/a",
        "https:evil.example/a",
        "https:\\\\evil.example\\a",
        "https://evil.example:443/a",
        " https://evil.example/a",
        "https://e\tvil.example/a",
        "https://evil%2eexample/a",
        "https://evil.example./a",
        "https://u@evil.example/a",
        "https://u:pw@EVIL.example.:443/a",
        "https://evil.example/#a",
    ] {
        for rule in [
            "https://evil.example/*",
            "https://Evil.Example/*",
            "*evil.example/*",
            "http*://evil.example*",
            "HTTPS://evil.example.:443/*",
        ] {
            assert!(fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
            assert!(fits(Ruling::Ask, rule, &json!(url)), "{rule} {url}");
        }
    }
}

#[test]
fn approve_1_a_rule_that_denies_an_address_does_so_in_every_spelling() {
    for (rule, url) in [
        ("https://evil.example", "https://evil.example/"),
        ("https://evil.example", "https://evil.example"),
        ("https://evil.example/", "https://u@evil.example"),
        ("*evil.example", "https://evil.example./"),
        ("*.zip", "https://a.example/b.zip"),
        ("https://b\u{fc}cher.example/*", "https://xn--bcher-kva.example/a"),
        ("https://xn--bcher-kva.example/*", "https://B\u{dc}CHER.example/a"),
        (
            "https://*.b\u{fc}cher.example/*",
            "https://a.xn--bcher-kva.example/",
        ),
        ("https://api.x/admin*", "https://api.x/%61dmin"),
        ("https://api.x/%61dmin*", "https://api.x/admin/b"),
        ("*/admin*", "https://api.x/%61dmin"),
        ("https://api.x/a%2fb", "https://api.x/a%2Fb#c"),
        ("http*://api.x:443/*", "https://api.x/a"),
        ("http://127.0.0.1/*", "http://0x7f.1/a"),
    ] {
        assert!(fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
        assert!(fits(Ruling::Ask, rule, &json!(url)), "{rule} {url}");
    }
    for (rule, url) in [
        ("https://evil.example", "https://evil.example/a"),
        ("https://evil.example/*", "http://evil.example/"),
        ("https://evil.example/*", "https://evil.example.org/"),
        ("https://evil.example/*", "https://evil.example@docs.rs/"),
        ("https://api.x/admin*", "https://api.x/%2561dmin"),
    ] {
        assert!(!fits(Ruling::Deny, rule, &json!(url)), "{rule} {url}");
    }
}

#[test]
fn approve_1_a_rule_that_allows_a_host_may_have_a_wildcard_in_its_scheme() {
    let fits = |pattern: &str, url: &str| fits(Ruling::Allow, pattern, &json!(url));
    for pattern in [
        "http*://docs.rs/*",
        "HTTP*://docs.rs*",
        "*://docs.rs/*",
        "HTTPS://docs.rs*",
        "h*s://Docs.rs*",
    ] {
        assert!(fits(pattern, "https://docs.rs/serde"), "{pattern}");
        for url in [
            "http://evil.example/://docs.rs/",
            "https://evil.example/://docs.rs/",
            "https://docs.rs.evil.example/",
            "HTTPS://docs.rs.evil.example/",
            "https://docs.rs@evil.example/",
        ] {
            assert!(!fits(pattern, url), "{pattern} {url}");
        }
    }
}
