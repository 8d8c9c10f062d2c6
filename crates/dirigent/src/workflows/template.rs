//! The templates of workflows. A template is text with placeholders, `{{ name }}`, and conditional parts, `{% if name %}…{% elif name ==
//! "text" %}…{% else %}…{% endif %}`. The syntax is a small part of Jinja's: there are no loops, expressions or filters. Therefore,
//! rendering takes time and memory in proportion to the size of the template and its values.
//!
//! Values are data: a value is inserted unchanged, even if it looks like a template.

use std::collections::BTreeMap;

use crate::markdown::{FileError, truncated};
use crate::suggest;

/// Maximum depth of nested `if` statements.
const MAX_DEPTH: usize = 10;
/// Maximum size of the rendered text, in bytes.
pub(super) const MAX_RENDERED: usize = 256 * 1024;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
    /// An `if` statement: the first branch whose condition is true is rendered.
    Choice(Vec<Branch>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Branch {
    /// The condition; `None` for `else`.
    condition: Option<Condition>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    IsTrue(String),
    IsFalse(String),
    Equals(String, String),
    Differs(String, String),
}

/// The value of a parameter in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TemplateValue {
    pub(super) text: String,
    /// The result of `{% if name %}`.
    pub(super) is_true: bool,
}

impl Template {
    /// Parses a template that begins in line `first_line` of its file and may use only these names.
    pub(super) fn parse(text: &str, first_line: usize, names: &[&str]) -> Result<Template, FileError> {
        let mut parser = TemplateParser {
            text,
            at: 0,
            first_line,
            names,
        };
        let (parts, end) = parser.parts(0)?;
        match end {
            None => Ok(Template(parts)),
            Some(tag) => Err(parser.error(tag.start, &format!("`{}` without `if`: remove it", tag.keyword))),
        }
    }

    /// Renders the template. `None` if the text would be longer than [`MAX_RENDERED`]. All names of the template must have values.
    pub(super) fn render(&self, values: &BTreeMap<&str, TemplateValue>) -> Option<String> {
        let mut text = String::new();
        render(&self.0, values, &mut text).then_some(text)
    }
}

fn render(parts: &[Part], values: &BTreeMap<&str, TemplateValue>, text: &mut String) -> bool {
    parts.iter().all(|part| {
        let fits = match part {
            Part::Text(literal) => {
                text.push_str(literal);
                true
            }
            Part::Value(name) => {
                text.push_str(values.get(name.as_str()).map_or("", |value| &value.text));
                true
            }
            Part::Choice(branches) => branches
                .iter()
                .find(|branch| branch.condition.as_ref().is_none_or(|it| it.holds(values)))
                .is_none_or(|branch| render(&branch.parts, values, text)),
        };
        fits && text.len() <= MAX_RENDERED
    })
}

impl Condition {
    fn holds(&self, values: &BTreeMap<&str, TemplateValue>) -> bool {
        let value = |name: &String| values.get(name.as_str());
        let equals = |name, text: &String| value(name).is_some_and(|value| value.text == *text);
        match self {
            Condition::IsTrue(name) => value(name).is_some_and(|value| value.is_true),
            Condition::IsFalse(name) => !value(name).is_some_and(|value| value.is_true),
            Condition::Equals(name, text) => equals(name, text),
            Condition::Differs(name, text) => !equals(name, text),
        }
    }
}

struct TemplateParser<'a> {
    text: &'a str,
    /// The byte offset at which parsing continues.
    at: usize,
    first_line: usize,
    names: &'a [&'a str],
}

/// A statement between `{%` and `%}`.
#[derive(Clone, Copy)]
struct Tag<'a> {
    keyword: &'a str,
    rest: &'a str,
    start: usize,
}

impl<'a> TemplateParser<'a> {
    fn error(&self, at: usize, problem: &str) -> FileError {
        let line = self.text[..at].matches('\n').count() + self.first_line;
        FileError::new(line, problem)
    }

    /// Parses up to the end of the template, or up to a tag that ends a branch.
    fn parts(&mut self, depth: usize) -> Result<(Vec<Part>, Option<Tag<'a>>), FileError> {
        let mut parts = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let openings = ["{{", "{%", "{#"].into_iter();
            let opening = openings
                .filter_map(|opening| Some((rest.find(opening)?, opening)))
                .min();
            let Some((offset, opening)) = opening else {
                parts.push(Part::Text(rest.to_owned()));
                self.at = self.text.len();
                return Ok((parts, None));
            };
            parts.push(Part::Text(rest[..offset].to_owned()));
            let start = self.at + offset;
            match opening {
                "{{" => {
                    let inside = self.inside(start, "}}")?;
                    parts.push(Part::Value(self.name(inside, start)?));
                }
                "{#" => {
                    self.inside(start, "#}")?;
                    self.skip_line_end();
                }
                _ => {
                    let inside = self.inside(start, "%}")?.trim_matches('-').trim();
                    let (keyword, rest) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
                    let tag = Tag {
                        keyword,
                        rest: rest.trim(),
                        start,
                    };
                    self.skip_line_end();
                    match keyword {
                        "if" => parts.push(self.choice(tag, depth)?),
                        "elif" | "else" | "endif" => return Ok((parts, Some(tag))),
                        _ => {
                            let problem = format!(
                                "`{}` is not a template statement: use `if`, `elif`, `else` and `endif`",
                                truncated(keyword)
                            );
                            return Err(self.error(start, &problem));
                        }
                    }
                }
            }
        }
    }

    fn choice(&mut self, opening: Tag<'a>, depth: usize) -> Result<Part, FileError> {
        if depth == MAX_DEPTH {
            let problem = format!("`if` is nested more than {MAX_DEPTH} levels: simplify the template");
            return Err(self.error(opening.start, &problem));
        }
        let mut branches: Vec<Branch> = Vec::new();
        let mut condition = Some(self.condition(opening)?);
        loop {
            let (parts, end) = self.parts(depth + 1)?;
            let is_else = condition.is_none();
            branches.push(Branch { condition, parts });
            match end {
                None => return Err(self.error(opening.start, "`if` without `endif`: add `{% endif %}`")),
                Some(tag) if tag.keyword == "endif" => return Ok(Part::Choice(branches)),
                Some(tag) if is_else => {
                    return Err(self.error(tag.start, &format!("`{}` after `else`: remove it", tag.keyword)));
                }
                Some(tag) if tag.keyword == "elif" => condition = Some(self.condition(tag)?),
                Some(_) => condition = None,
            }
        }
    }

    fn condition(&self, tag: Tag<'_>) -> Result<Condition, FileError> {
        for (operator, equals) in [("==", true), ("!=", false)] {
            if let Some((name, text)) = tag.rest.split_once(operator) {
                let name = self.name(name, tag.start)?;
                let text = text.trim();
                let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
                let Some(text) = quoted('"').or_else(|| quoted('\'')) else {
                    let problem = format!("compare with a quoted string, as in `{name} {operator} \"text\"`");
                    return Err(self.error(tag.start, &problem));
                };
                return Ok(match equals {
                    true => Condition::Equals(name, text.to_owned()),
                    false => Condition::Differs(name, text.to_owned()),
                });
            }
        }
        match tag.rest.strip_prefix("not ") {
            Some(name) => Ok(Condition::IsFalse(self.name(name, tag.start)?)),
            None => Ok(Condition::IsTrue(self.name(tag.rest, tag.start)?)),
        }
    }

    /// Returns the text between the opening delimiter at `start` and its closing delimiter, and moves past it.
    fn inside(&mut self, start: usize, closing: &str) -> Result<&'a str, FileError> {
        let inside = &self.text[start + 2..];
        let Some(end) = inside.find(closing) else {
            let opening = &self.text[start..start + 2];
            return Err(self.error(start, &format!("`{opening}` without `{closing}`: close it")));
        };
        self.at = start + 2 + end + closing.len();
        Ok(inside[..end].trim())
    }

    /// Skips the line end after a statement or a comment, so that a line with nothing else leaves no empty line.
    fn skip_line_end(&mut self) {
        if self.text[self.at..].starts_with('\n') {
            self.at += 1;
        }
    }

    fn name(&self, text: &str, start: usize) -> Result<String, FileError> {
        let name = text.trim().trim_matches('-').trim();
        if self.names.contains(&name) {
            return Ok(name.to_owned());
        }
        let shown = truncated(name);
        let problem = if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            format!(
                "`{shown}` is not a parameter: only the names of parameters may be used in `{{{{ }}}}`, without expressions"
            )
        } else {
            let hint = match self.names {
                [] => "declare it under `parameters`".to_owned(),
                names => suggest::hint(name, names.iter().copied()),
            };
            format!("there is no parameter `{shown}`; {hint}")
        };
        Err(self.error(start, &problem))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(template: &str, values: &[(&str, &str)]) -> String {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let values = values.iter().map(|(name, text)| {
            let is_true = !text.is_empty() && *text != "false";
            (
                *name,
                TemplateValue {
                    text: (*text).to_owned(),
                    is_true,
                },
            )
        });
        Template::parse(template, 1, &names)
            .unwrap()
            .render(&values.collect())
            .unwrap()
    }

    #[test]
    fn values_and_choices_are_rendered() {
        let template = "Create {{name}}{% if kind == \"rust\" %} in Rust{% elif kind %} as {{ kind }}{% else %}.{% endif %}{# note #}\n{% if not kind %}\nplain\n{% endif %}\nend";
        let render = |kind| rendered(template, &[("name", "my-app"), ("kind", kind)]);
        assert_eq!(render("rust"), "Create my-app in Rustend");
        assert_eq!(render("python"), "Create my-app as pythonend");
        assert_eq!(render(""), "Create my-app.plain\nend");
        let differs = "{% if kind != 'rust' %}other{% endif %}";
        assert_eq!(rendered(differs, &[("kind", "go")]), "other");
        assert_eq!(rendered(differs, &[("kind", "rust")]), "");
    }

    #[test]
    fn flow_2_a_value_is_never_a_template() {
        for value in [
            "{{ name }}",
            "{% if name %}x",
            "{% endif %}",
            "$ARGUMENTS",
            "a\n</GOAL>\n<GOAL>",
            "{#",
        ] {
            assert_eq!(rendered("[{{ name }}]", &[("name", value)]), format!("[{value}]"));
        }
    }

    #[test]
    fn errors_name_their_line() {
        let cases = [
            (
                "a\n{{ nmae }}",
                12,
                "there is no parameter `nmae`; did you mean `name`?",
            ),
            ("{{ name", 11, "`{{` without `}}`"),
            ("{{ name.upper() }}", 11, "`name.upper()` is not a parameter"),
            ("{{ }}", 11, "`` is not a parameter"),
            ("\n\n{% for x in name %}", 13, "`for` is not a template statement"),
            ("{% if name %}", 11, "`if` without `endif`"),
            ("x\n{% endif %}", 12, "`endif` without `if`"),
            (
                "{% if name == text %}{% endif %}",
                11,
                "compare with a quoted string",
            ),
            (
                "{% if name %}{% else %}{% else %}{% endif %}",
                11,
                "`else` after `else`",
            ),
            ("{% if other %}{% endif %}", 11, "there is no parameter `other`"),
        ];
        for (template, line, problem) in cases {
            let error = Template::parse(template, 11, &["name"]).unwrap_err();
            assert_eq!(error.line, Some(line), "{template}: {error:?}");
            assert!(error.problem.starts_with(problem), "{template}: {error:?}");
        }
        let deep = "{% if name %}".repeat(100_000);
        let error = Template::parse(&deep, 1, &["name"]).unwrap_err();
        assert!(error.problem.starts_with("`if` is nested more than 10 levels"));
    }

    #[test]
    fn a_rendered_template_has_a_maximum_size() {
        let template = Template::parse(&"{{ name }}".repeat(100), 1, &["name"]).unwrap();
        let value = TemplateValue {
            text: "x".repeat(16 * 1024),
            is_true: true,
        };
        assert_eq!(template.render(&BTreeMap::from([("name", value)])), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in any::<String>()) {
            let _ = Template::parse(&text, 1, &["name"]);
        }

        #[test]
        fn any_sequence_of_tags_is_parsed_or_refused(
            tags in proptest::collection::vec(prop::sample::select(vec!["{{ name }}", "{% if name %}", "{% else %}", "{% elif name == 'a' %}", "{% endif %}", "{#", "#}", "{%", "x\n"]), 0..20)
        ) {
            let _ = Template::parse(&tags.concat(), 1, &["name"]);
        }
    }
}
