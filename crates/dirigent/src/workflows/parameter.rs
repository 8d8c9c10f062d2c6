//! The parameters of workflows, and the validation of their values (FLOW-2).

use std::fmt;
use std::path::{Component, Path};

use regex::RegexBuilder;

use crate::suggest;

/// Maximum size of a value, in bytes.
const MAX_VALUE: usize = 16 * 1024;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 256 * 1024;

/// A parameter of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name in the template and in `name=value`.
    pub name: String,
    /// The values that the parameter can have.
    pub kind: ParameterKind,
    /// Whether the workflow needs a value. A parameter with a default is never missing.
    pub required: bool,
    /// The value if the user gives none.
    pub default: Option<String>,
    /// A regular expression that the whole value must match.
    pub pattern: Option<String>,
    /// The description for the user.
    pub description: String,
}

/// The values that a parameter can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A path inside the workspace, relative to it. The file need not exist.
    Path,
    /// One of these strings.
    Choice(Vec<String>),
}

impl ParameterKind {
    /// Returns the name of the type in files.
    pub fn name(&self) -> &'static str {
        match self {
            ParameterKind::String => "string",
            ParameterKind::Integer => "integer",
            ParameterKind::Number => "number",
            ParameterKind::Boolean => "boolean",
            ParameterKind::Path => "path",
            ParameterKind::Choice(_) => "choice",
        }
    }
}

/// Display format: `integer`, or the choices, such as `rust | python`.
impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterKind::Choice(choices) => f.write_str(&choices.join(" | ")),
            ParameterKind::String
            | ParameterKind::Integer
            | ParameterKind::Number
            | ParameterKind::Boolean
            | ParameterKind::Path => f.write_str(self.name()),
        }
    }
}

impl Parameter {
    /// Returns true if the user must give a value.
    pub fn needs_value(&self) -> bool {
        self.required && self.default.is_none()
    }

    /// Returns the value in its normal form, or the reason why it is not valid.
    pub(super) fn check(&self, value: &str) -> Result<String, String> {
        if value.len() > MAX_VALUE {
            return Err(format!("it is longer than {} KiB", MAX_VALUE / 1024));
        }
        if value.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
            return Err("it contains a control character".to_owned());
        }
        let is_text = matches!(self.kind, ParameterKind::String);
        let value = if is_text { value } else { value.trim() };
        if value.trim().is_empty() {
            return match self.required {
                true => Err("it is empty".to_owned()),
                false => Ok(String::new()),
            };
        }
        let value = match &self.kind {
            ParameterKind::String => value.to_owned(),
            ParameterKind::Integer => match value.parse::<i64>() {
                Ok(number) => number.to_string(),
                Err(_) => return Err("it must be a whole number, such as 3".to_owned()),
            },
            ParameterKind::Number => match value.parse::<f64>() {
                Ok(number) if number.is_finite() => value.to_owned(),
                Ok(_) | Err(_) => return Err("it must be a number, such as 0.5".to_owned()),
            },
            ParameterKind::Boolean => boolean(value)?.to_owned(),
            ParameterKind::Path => path(value)?,
            ParameterKind::Choice(choices) => choice(value, choices)?,
        };
        match &self.pattern {
            Some(pattern) if !matches_whole(pattern, &value)? => Err(self.mismatch(pattern)),
            Some(_) | None => Ok(value),
        }
    }

    fn mismatch(&self, pattern: &str) -> String {
        match self.description.as_str() {
            "" => format!("it must match `{pattern}`"),
            description => format!("it must match `{pattern}` ({description})"),
        }
    }
}

/// Checks that the pattern is a valid regular expression.
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    matches_whole(pattern, "").map(drop)
}

fn matches_whole(pattern: &str, value: &str) -> Result<bool, String> {
    let whole = format!("^(?:{pattern})$");
    let regex = RegexBuilder::new(&whole).size_limit(MAX_PATTERN).build();
    // An invalid pattern such as `a)|(?:b` can become a valid expression between `^(?:` and `)$`, so the pattern is also checked by
    // itself.
    let alone = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
    match (regex, alone) {
        (Ok(regex), Ok(_)) => Ok(regex.find(value).is_some_and(|found| found.len() == value.len())),
        (Err(_), _) | (_, Err(_)) => Err(format!("`{pattern}` is not a regular expression")),
    }
}

fn boolean(value: &str) -> Result<&'static str, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok("true"),
        "false" | "no" | "off" | "0" => Ok("false"),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// Checks that a path, as written, stays inside the workspace. Tools check it again, with links resolved.
fn path(value: &str) -> Result<String, String> {
    if value.contains('\n') || value.contains('\t') {
        return Err("it contains a control character".to_owned());
    }
    let mut depth = 0_usize;
    for component in Path::new(value).components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir => return Err("it leads out of the workspace".to_owned()),
            Component::RootDir | Component::Prefix(_) => {
                return Err("it must be relative to the workspace".to_owned());
            }
        }
    }
    Ok(value.to_owned())
}

fn choice(value: &str, choices: &[String]) -> Result<String, String> {
    let exact = choices.iter().find(|choice| *choice == value);
    let same = choices.iter().find(|choice| choice.eq_ignore_ascii_case(value));
    exact.or(same).cloned().ok_or_else(|| {
        let hint = suggest::nearest(value, choices.iter().map(String::as_str));
        let hint = hint.map(|name| format!("; did you mean `{name}`?"));
        format!(
            "it must be one of {}{}",
            choices.join(", "),
            hint.unwrap_or_default()
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameter(kind: ParameterKind) -> Parameter {
        Parameter {
            name: "value".to_owned(),
            kind,
            required: true,
            default: None,
            pattern: None,
            description: String::new(),
        }
    }

    fn kinds() -> [ParameterKind; 6] {
        let choices = ["rust", "python"].map(str::to_owned).into();
        [
            ParameterKind::String,
            ParameterKind::Integer,
            ParameterKind::Number,
            ParameterKind::Boolean,
            ParameterKind::Path,
            ParameterKind::Choice(choices),
        ]
    }

    #[test]
    fn flow_2_an_invalid_value_is_refused_with_the_reason() {
        let [string, integer, number, boolean, path, choice] = kinds();
        let cases: [(&ParameterKind, &str, Result<&str, &str>); 22] = [
            (&string, " {{ x }}\n$ARGUMENTS", Ok(" {{ x }}\n$ARGUMENTS")),
            (&string, "a\u{1b}[2Jb", Err("it contains a control character")),
            (&string, " ", Err("it is empty")),
            (&integer, " -3 ", Ok("-3")),
            (&integer, "+07", Ok("7")),
            (&integer, "3.5", Err("it must be a whole number, such as 3")),
            (
                &integer,
                "99999999999999999999",
                Err("it must be a whole number, such as 3"),
            ),
            (&number, "0.5", Ok("0.5")),
            (&number, "inf", Err("it must be a number, such as 0.5")),
            (&number, "many", Err("it must be a number, such as 0.5")),
            (&boolean, "Yes", Ok("true")),
            (&boolean, "off", Ok("false")),
            (&boolean, "maybe", Err("it must be true or false")),
            (&path, "src/../docs/a b.md", Ok("src/../docs/a b.md")),
            (&path, "../secret", Err("it leads out of the workspace")),
            (&path, "src/../../secret", Err("it leads out of the workspace")),
            (&path, "/etc/passwd", Err("it must be relative to the workspace")),
            (&path, "a\nb", Err("it contains a control character")),
            (&choice, "Rust", Ok("rust")),
            (
                &choice,
                "phyton",
                Err("it must be one of rust, python; did you mean `python`?"),
            ),
            (&choice, "", Err("it is empty")),
            (&choice, "go", Err("it must be one of rust, python")),
        ];
        for (kind, value, expected) in cases {
            let checked = parameter(kind.clone()).check(value);
            let checked = checked.as_deref().map_err(String::as_str);
            assert_eq!(checked, expected, "{kind} {value}");
        }
        let long = "x".repeat(MAX_VALUE + 1);
        assert_eq!(
            parameter(string).check(&long),
            Err("it is longer than 16 KiB".to_owned())
        );
    }

    #[test]
    fn flow_2_a_pattern_must_match_the_whole_value() {
        let named = Parameter {
            pattern: Some("[a-z]+|[0-9]+".to_owned()),
            description: "a lower-case name".to_owned(),
            ..parameter(ParameterKind::String)
        };
        assert_eq!(named.check("abc"), Ok("abc".to_owned()));
        for wrong in ["abc\n", "a1", "Abc"] {
            assert_eq!(
                named.check(wrong),
                Err("it must match `[a-z]+|[0-9]+` (a lower-case name)".to_owned()),
                "{wrong}"
            );
        }
        for broken in ["(", "a)(?:b", "a{999}{999}{999}"] {
            assert!(check_pattern(broken).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn checking_a_checked_value_again_does_not_change_it(value in any::<String>(), kind in 0..6_usize) {
            let parameter = parameter(kinds()[kind].clone());
            if let Ok(normal) = parameter.check(&value) {
                prop_assert_eq!(parameter.check(&normal), Ok(normal));
            }
        }
    }
}
