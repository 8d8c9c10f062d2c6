//! Detects secrets in the text of a fact. Facts are sent to models, so a false alarm is better than a missed secret.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of secret that a text seems to contain. JSON: the name in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// A private key.
    PrivateKey,
    /// An API key or token in a known format, or a long random string.
    Token,
    /// A password, passphrase or PIN.
    Password,
    /// The number of a payment card.
    CardNumber,
    /// A URL with a password.
    AddressWithPassword,
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::PrivateKey => "a private key",
            Secret::Token => "an API key or token",
            Secret::Password => "a password",
            Secret::CardNumber => "a card number",
            Secret::AddressWithPassword => "an address with a password",
        })
    }
}

/// Prefixes of keys and tokens.
const TOKEN_PREFIXES: &[&str] = &[
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "pk_live_",
    "whsec_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
    "SG.",
    "shpat_",
    "AGE-SECRET-KEY-",
    "gsk_",
    "tskey-",
    "lin_api_",
    "ATATT",
    "dckr_pat_",
    "r8_",
    "xai-",
];
/// Minimum length of the part after such a prefix.
const MIN_TOKEN_REST: usize = 12;
/// Minimum length of a random string without a known prefix.
const MIN_RANDOM: usize = 28;

/// Names of secrets, in lower case.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwort",
    "passwd",
    "passcode",
    "passphrase",
    "pwd",
    "pin",
    "pin code",
    "api key",
    "apikey",
    "api-key",
    "api_key",
    "access key",
    "access token",
    "auth token",
    "secret key",
    "client secret",
    "secret",
    "token",
    "private key",
    "recovery code",
    "security code",
    "cvv",
    "cvc",
    "ssn",
    "social security number",
    "credentials",
    "login",
    "密码",
    "口令",
    "密钥",
    "令牌",
    "验证码",
    "私钥",
    "秘钥",
    "暗号",
];
/// Words and signs between a secret's name and its value.
const LINKS: &[&str] = &[
    " is:", " is ", " are ", " was ", ":", "=", " = ", "是", "为", "：", "＝", " 是 ", " 为 ", "设成", "改成",
];
/// First words after such a link that begin a statement about the secret instead of its value ("the token is stored in …").
const STATEMENTS: &[&str] = &[
    "in",
    "stored",
    "kept",
    "saved",
    "reset",
    "changed",
    "required",
    "not",
    "never",
    "managed",
    "rotated",
    "on",
    "at",
    "always",
    "only",
    "the",
    "a",
    "an",
    "from",
    "with",
    "by",
    "too",
    "long",
    "short",
    "weak",
    "strong",
    "needed",
    "optional",
    "hashed",
    "encrypted",
    "valid",
    "invalid",
    "wrong",
    "set",
    "read",
    "sent",
    "shared",
    "checked",
    "used",
    "expired",
    "missing",
    "empty",
    "printed",
    "logged",
    "found",
    "written",
    "generated",
    "where",
    "under",
    "inside",
    "part",
    "per",
    "different",
    "same",
    "no",
    "now",
    "about",
    "for",
    "to",
    "out",
    "via",
];
/// Beginnings of such statements in Chinese, which has no spaces between words.
const CHINESE_STATEMENTS: &[&str] = &[
    "存", "放", "在", "由", "不", "每", "要", "需", "保", "定期", "过期", "必", "用来", "什么", "空", "否",
    "一个", "错",
];

/// Returns the kind of secret that the text seems to contain; `None` if the text may be saved.
pub(crate) fn find(text: &str) -> Option<Secret> {
    let text: String = text.chars().map(half_width).collect();
    let lower = text.to_lowercase();
    let words = || text.split(|c: char| c.is_whitespace() || "\"'`,;()<>[]{}，。；（）「」“”".contains(c));
    if lower.contains("-----begin") && lower.contains("private key") || lower.contains("putty-user-key-file")
    {
        return Some(Secret::PrivateKey);
    }
    if words().any(has_login) {
        return Some(Secret::AddressWithPassword);
    }
    if words().any(is_token) || has_bearer(&text) {
        return Some(Secret::Token);
    }
    if has_card_number(&text) {
        return Some(Secret::CardNumber);
    }
    names_secret(&lower).then_some(Secret::Password)
}

/// Converts full-width letters and digits to ordinary ones.
fn half_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        other => other,
    }
}

/// Returns true for `https://user:password@host`.
fn has_login(word: &str) -> bool {
    let login = word
        .split_once("://")
        .and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
    login.is_some_and(|(login, _)| {
        login
            .split_once(':')
            .is_some_and(|(_, password)| !password.is_empty())
    })
}

fn has_bearer(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.any(|word| word.eq_ignore_ascii_case("bearer"))
        && words.next().is_some_and(|token| token.len() >= 16)
}

/// Returns true for a key or token with a known prefix, a JSON web token, or a long random string.
fn is_token(word: &str) -> bool {
    // The name in `KEY=token` or `token:` is not a part of the token.
    let parts = word.split(['=', ':', '：']).chain([word]);
    parts.into_iter().any(|part| {
        let known = TOKEN_PREFIXES.iter().any(|prefix| {
            let rest = part.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.len() >= MIN_TOKEN_REST && rest.chars().all(is_token_char))
        });
        known || is_json_web_token(part) || is_random(part)
    })
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.+/".contains(c)
}

fn is_json_web_token(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    matches!(parts.as_slice(), [header, claims, _] if header.starts_with("eyJ") && claims.starts_with("eyJ"))
}

/// Returns true for a long word with letters of both cases and several digits, and without separators. Digests and UUIDs have letters of
/// one case.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&char) -> bool| word.chars().filter(is).count();
    word.len() >= MIN_RANDOM
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+=".contains(c))
        && count(char::is_ascii_uppercase) >= 3
        && count(char::is_ascii_lowercase) >= 3
        && count(char::is_ascii_digit) >= 3
}

/// Returns true if the text contains 13 to 19 digits with a valid check digit, grouped or not.
fn has_card_number(text: &str) -> bool {
    let mut digits = String::new();
    let mut separated = false;
    for c in text.chars().chain(['.']) {
        match c {
            '0'..='9' => {
                digits.push(c);
                separated = false;
            }
            ' ' | '-' if !digits.is_empty() && !separated => separated = true,
            _ => {
                if is_card_number(&digits) {
                    return true;
                }
                digits.clear();
                separated = false;
            }
        }
    }
    false
}

fn is_card_number(digits: &str) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(place, digit)| if place % 2 == 1 { doubled(digit) } else { digit })
        .sum();
    (13..=19).contains(&digits.len())
        && digits.starts_with(['2', '3', '4', '5', '6'])
        && sum.is_multiple_of(10)
}

/// Returns true for "my password is hunter2", 密码：hunter2 and "hunter2 is my password".
fn names_secret(lower: &str) -> bool {
    let after = SECRET_NAMES.iter().any(|name| {
        occurrences(lower, name).any(|(_, rest)| {
            let linked = LINKS
                .iter()
                .find_map(|link| rest.strip_prefix(link).map(|value| (*link, value)));
            match linked {
                Some((link, value)) => is_value(value.trim_start(), link),
                None => is_password_like(rest),
            }
        })
    });
    after
        || SECRET_NAMES.iter().any(|name| {
            occurrences(lower, name).any(|(before, _)| {
                let before = before.trim_end();
                [
                    "is my",
                    "is the",
                    "is our",
                    "as my",
                    "as the",
                    "as password",
                    "是我的",
                    "作为",
                    "是",
                ]
                .iter()
                .any(|link| before.strip_suffix(link).is_some_and(is_last_word_a_secret))
            })
        })
}

/// The occurrences of a name as a whole word, each with the text before and after it.
fn occurrences<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let (before, rest) = (&text[..at], &text[at + name.len()..]);
        let is_whole = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        (is_whole || !name.is_ascii()).then_some((before, rest))
    })
}

/// Returns true if the text after the link is a value, not a statement about the secret.
fn is_value(value: &str, link: &str) -> bool {
    let first = value
        .split(|c: char| c.is_whitespace() || ",;，。；".contains(c))
        .next()
        .unwrap_or_default();
    let bare = first.trim_matches(|c: char| "\"'`.!?「」“”".contains(c));
    if bare.is_empty() {
        return false;
    }
    let is_symbol = [":", "=", " = ", "：", "＝", " is:"].contains(&link);
    let is_statement =
        STATEMENTS.contains(&bare) || CHINESE_STATEMENTS.iter().any(|start| bare.starts_with(start));
    !is_statement || is_symbol && looks_random(bare)
}

/// Returns true if a password follows directly, as in "password hunter2".
fn is_password_like(rest: &str) -> bool {
    let first = rest
        .strip_prefix(' ')
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_default();
    first.len() >= 6 && looks_random(first)
}

/// Returns true for a word with digits and letters.
fn looks_random(word: &str) -> bool {
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    let has_letter = word.contains(|c: char| c.is_ascii_alphabetic());
    has_digit && has_letter
}

/// Returns true if the last word could be a secret, as in "hunter2 is my password", but not in "changing it is my password policy".
fn is_last_word_a_secret(before: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || "，。,;用把".contains(c);
    let last = before.trim_end().rsplit(ends).next().unwrap_or_default();
    let last = last.trim_matches(|c: char| "\"'`「」“”".contains(c));
    last.len() >= 4 && last.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{Secret, find};

    #[test]
    fn intent_1_secrets_are_recognized() {
        let cases = [
            (
                "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXk",
                Secret::PrivateKey,
            ),
            ("-----BEGIN RSA PRIVATE KEY-----", Secret::PrivateKey),
            ("the key is sk-proj-abcdefghijklmnop1234", Secret::Token),
            ("sk-ant-api03-abcdefghijklmnop", Secret::Token),
            (
                "use ghp_0123456789abcdefABCDEF0123456789abcd for GitHub",
                Secret::Token,
            ),
            ("OPENAI_API_KEY=sk-abcdefghijklmnop1234", Secret::Token),
            ("AKIAIOSFODNN7EXAMPLE is ours", Secret::Token),
            ("glpat-abcdefghij1234567890", Secret::Token),
            ("xoxb-123456789012-abcdefghij", Secret::Token),
            ("AIzaSyA-1234567890abcdefghijklmnopqrstuv", Secret::Token),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", Secret::Token),
            ("Authorization: Bearer abcdefghijklmnopqrst", Secret::Token),
            ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12", Secret::Token),
            ("我的令牌 ghp_0123456789abcdefABCDEF", Secret::Token),
            ("My password is hunter2", Secret::Password),
            ("the password: hunter2", Secret::Password),
            ("password=letmein", Secret::Password),
            ("my passphrase is correct horse battery staple", Secret::Password),
            ("my PIN is 1234", Secret::Password),
            ("the api key is abcdef", Secret::Password),
            ("wifi password hunter22", Secret::Password),
            ("hunter2 is my password", Secret::Password),
            ("我的密码是 abc123", Secret::Password),
            ("密码：hunter2", Secret::Password),
            ("Wi-Fi 密码为12345678", Secret::Password),
            ("ｐａｓｓｗｏｒｄ：ｈｕｎｔｅｒ２", Secret::Password),
            ("my card is 4111 1111 1111 1111", Secret::CardNumber),
            ("5500-0000-0000-0004", Secret::CardNumber),
            ("378282246310005", Secret::CardNumber),
            (
                "the database is postgres://app:s3cret@db.example.org/main",
                Secret::AddressWithPassword,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(find(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn intent_1_ordinary_facts_are_not_secrets() {
        for text in [
            "my favourite colour is green",
            "the password is stored in 1Password",
            "the password is in the vault",
            "passwords are hashed with argon2",
            "the token is rotated every Monday",
            "API keys are read from the environment",
            "we never log the password",
            "the bad commit is 3a253f24d0b1c9e8f7a6b5c4d3e2f1a0b9c8d7e6",
            "the run is 0190a1b2-c3d4-7e5f-8a6b-0123456789ab",
            "my phone number is +49 30 1234567",
            "call me at 555-0100",
            "order 1234567890123456 arrived",
            "the server is https://git.example.org:8443/team/project",
            "git@github.com:owner/name.git is the remote",
            "the entry point is crates/core/src/intent/language/english.rs",
            "we use a pinned toolchain",
            "the tokenizer is called unicode61",
            "我的生日是五月五日",
            "密码存在保险箱里",
            "密码是不能写在代码里的",
            "the login page is at /login",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
