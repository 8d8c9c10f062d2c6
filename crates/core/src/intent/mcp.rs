//! Requests for tools of MCP services (MCP-3).

use std::collections::BTreeMap;
use std::ops::Range;

use super::language::all;
use super::requests::{is_negated, is_request, may_request};
use super::words::{TokenKind, Words};
use super::{Classification, Intent, IntentContext, IntentRule, McpIntent, McpTarget};

/// Maximum number of tokens that are examined. Longer messages contain pasted text.
const MAX_TOKENS: usize = 2_000;
/// Maximum number of tokens between a verb and the noun ("use the … tool").
const MAX_BETWEEN: usize = 12;
/// Maximum length of an unknown name, in words.
const MAX_NAME_WORDS: usize = 3;
/// Maximum length of an unknown name in Chinese characters.
const MAX_NAME_HAN: usize = 4;

/// Finds the tools and services that the message requests explicitly.
pub(super) fn explicit(words: &Words<'_>, context: &IntentContext<'_>) -> Option<Classification> {
    let known = KnownNames::new(context);
    let mut targets: Vec<McpTarget> = Vec::new();
    let mut matched = Vec::new();
    let mut rule = None;
    let mut at = 0;
    while at < words.len().min(MAX_TOKENS) {
        let Some(mention) = mention(words, at, &known) else {
            at += 1;
            continue;
        };
        for target in mention.targets {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        matched.push(words.written(at..mention.end));
        rule.get_or_insert(mention.rule);
        at = mention.end;
    }
    let rule = rule?;
    Some(Classification::new(
        Intent::Mcp(McpIntent { targets }),
        rule,
        matched,
    ))
}

/// Finds services by their trigger keywords.
pub(super) fn triggered(words: &Words<'_>, context: &IntentContext<'_>) -> Option<Classification> {
    let mut targets = Vec::new();
    let mut matched = Vec::new();
    for service in context.services {
        let mut keywords = service.trigger_keywords.iter().map(|keyword| Words::new(keyword));
        if let Some(range) = keywords.find_map(|keyword| find_keyword(words, &keyword)) {
            targets.push(McpTarget::Service {
                name: service.name.clone(),
                state: service.state,
            });
            matched.push(words.written(range));
        }
    }
    if targets.is_empty() {
        return None;
    }
    let intent = Intent::Mcp(McpIntent { targets });
    Some(Classification::new(intent, IntentRule::TriggerKeyword, matched))
}

/// The first occurrence of the keyword that is neither quoted nor negated.
fn find_keyword(words: &Words<'_>, keyword: &Words<'_>) -> Option<Range<usize>> {
    let mut found = words.occurrences(keyword);
    found.find(|range| range.start <= MAX_TOKENS && !is_negated(words, range.start))
}

/// A mention of tools or services.
struct Mention {
    targets: Vec<McpTarget>,
    rule: IntentRule,
    end: usize,
}

fn mention(words: &Words<'_>, at: usize, known: &KnownNames) -> Option<Mention> {
    let verb = words
        .longest_at(at, all(|language| language.use_verbs))
        .filter(|_| starts_verb(words, at));
    let means = words.longest_at(at, all(|language| language.means));
    let end = verb.max(means)?;
    let only_known = verb.is_none();
    let mention = noun_first(words, end, known)
        .or_else(|| name_first(words, end, known))
        .or_else(|| {
            if only_known {
                None
            } else {
                bare(words, at, end, known)
            }
        })?;
    let is_known = |target: &McpTarget| !matches!(target, McpTarget::Unknown { .. });
    let requested = if mention.rule == IntentRule::KnownName {
        is_request(words, at)
    } else {
        may_request(words, at)
    };
    (requested && (!only_known || mention.targets.iter().all(is_known))).then_some(mention)
}

/// Returns false if 用 is part of another word, such as 费用 or 常用.
fn starts_verb(words: &Words<'_>, at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |before| words.text(before));
    words.text(at) != "用"
        || before.is_empty()
        || !"费应作引信常有实专通公适借占耗启停禁复重多雇录日军商采享运使利".contains(before)
}

/// Matches "use the tool xxx", 使用工具 xxx.
fn noun_first(words: &Words<'_>, at: usize, known: &KnownNames) -> Option<Mention> {
    let at = skip_articles(words, at).0;
    let noun = words.longest_at(at, all(|language| language.tool_nouns))?;
    let introduced = words.longest_at(noun, all(|language| language.named));
    let at = introduced.unwrap_or(noun);
    let (targets, end) = known.at(words, at).or_else(|| {
        let is_name = match words.kind(at)? {
            TokenKind::Quoted => is_identifier(words.text(at)),
            TokenKind::Word => introduced.is_some() || words.text(at).contains(['_', '-']),
            TokenKind::Han | TokenKind::Break | TokenKind::Symbol => false,
        };
        is_name.then(|| (vec![unknown(words, at..at + 1)], at + 1))
    })?;
    Some(Mention {
        targets,
        rule: IntentRule::NamedTool,
        end,
    })
}

/// Matches "use the xxx tool", 用 xxx 工具.
fn name_first(words: &Words<'_>, at: usize, known: &KnownNames) -> Option<Mention> {
    let (at, indefinite) = skip_articles(words, at);
    for noun in at + 1..=(at + MAX_BETWEEN).min(words.len()) {
        match words.kind(noun - 1)? {
            TokenKind::Word | TokenKind::Han | TokenKind::Quoted => {}
            TokenKind::Break if [",", "、"].contains(&words.text(noun - 1)) => {}
            TokenKind::Symbol if words.text(noun - 1) == "&" => {}
            TokenKind::Break | TokenKind::Symbol => return None,
        }
        let tool = words.longest_at(noun, all(|language| language.tool_nouns));
        let service = words.longest_at(noun, all(|language| language.service_nouns));
        let Some(end) = tool.or(service) else {
            continue;
        };
        let only_known = tool.is_none() || indefinite;
        let mut targets = Vec::new();
        for name in names(words, at..noun) {
            targets.extend(named(words, name, known, only_known)?);
        }
        return (!targets.is_empty()).then_some(Mention {
            targets,
            rule: IntentRule::NamedTool,
            end,
        });
    }
    None
}

/// Matches "call xxx", 调用 xxx. The names must be known.
fn bare(words: &Words<'_>, start: usize, at: usize, known: &KnownNames) -> Option<Mention> {
    let (mut targets, mut end) = known.at(words, skip_articles(words, at).0)?;
    while let Some(joint) = words.longest_at(end, all(|language| language.joints))
        && let Some((more, after)) = known.at(words, joint)
    {
        targets.extend(more);
        end = after;
    }
    let is_code = words
        .longest_at(end, all(|language| language.code_nouns))
        .is_some();
    // A single Chinese character may be part of a longer word.
    let is_whole = words.kind(end - 1) != Some(TokenKind::Han) || end - start > 1;
    (!is_code && is_whole).then_some(Mention {
        targets,
        rule: IntentRule::KnownName,
        end,
    })
}

/// Skips articles. The second value is true if one of them does not refer to a particular tool ("a").
fn skip_articles(words: &Words<'_>, mut at: usize) -> (usize, bool) {
    let mut indefinite = false;
    loop {
        let one = words.longest_at(at, all(|language| language.indefinite));
        let article = words.longest_at(at, all(|language| language.articles));
        match one.max(article) {
            Some(end) => {
                indefinite |= one == Some(end);
                at = end;
            }
            None => return (at, indefinite),
        }
    }
}

/// The names between the verb and the noun, without words such as "and".
fn names(words: &Words<'_>, range: Range<usize>) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut start = range.start;
    let mut at = range.start;
    while at < range.end {
        let joint = words.longest_in(at..range.end, all(|language| language.joints));
        let is_break = matches!(words.kind(at), Some(TokenKind::Break | TokenKind::Symbol));
        if joint.is_some() || is_break {
            names.push(start..at);
            at = joint.unwrap_or(at + 1);
            start = skip_articles(words, at).0.min(range.end);
        } else {
            at += 1;
        }
    }
    names.push(start..range.end);
    names.retain(|name| !name.is_empty());
    names
}

/// The tools and services that these words before a noun refer to; `None` if they are not a name.
fn named(
    words: &Words<'_>,
    name: Range<usize>,
    known: &KnownNames,
    only_known: bool,
) -> Option<Vec<McpTarget>> {
    if let Some((targets, end)) = known.at(words, name.start)
        && end == name.end
    {
        return Some(targets);
    }
    let start = words
        .longest_in(name.clone(), all(|language| language.not_names))
        .unwrap_or(name.start);
    if start > name.start {
        return if start < name.end {
            named(words, start..name.end, known, only_known)
        } else {
            None
        };
    }
    let tokens = words.tokens().get(name.clone())?;
    let is_name = match tokens {
        [token] if token.kind == TokenKind::Quoted => is_identifier(&token.text),
        [first, ..] => {
            let max = match first.kind {
                TokenKind::Word => MAX_NAME_WORDS,
                TokenKind::Han => MAX_NAME_HAN,
                TokenKind::Quoted | TokenKind::Break | TokenKind::Symbol => 0,
            };
            let is_foreign = |at| {
                words
                    .longest_at(at, all(|language| language.never_in_names))
                    .is_some()
            };
            tokens.len() <= max
                && tokens.iter().all(|token| token.kind == first.kind)
                && !name.clone().any(is_foreign)
        }
        [] => false,
    };
    (is_name && !only_known).then(|| vec![unknown(words, name)])
}

fn unknown(words: &Words<'_>, name: Range<usize>) -> McpTarget {
    let is_quoted = words.kind(name.start) == Some(TokenKind::Quoted);
    let name = words.written(name);
    let name = if is_quoted {
        name.trim_matches(|c: char| !c.is_alphanumeric() && c != '_')
    } else {
        name
    };
    McpTarget::Unknown {
        name: name.to_owned(),
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-./:".contains(c))
}

/// The names of services and tools. Letter case and separators do not matter: "web search" is `web_search`.
struct KnownNames(BTreeMap<String, Vec<McpTarget>>);

impl KnownNames {
    fn new(context: &IntentContext<'_>) -> Self {
        let mut names: BTreeMap<String, Vec<McpTarget>> = BTreeMap::new();
        for service in context.services {
            for tool in &service.tools {
                names.entry(key(tool)).or_default().push(McpTarget::Tool {
                    name: tool.clone(),
                    service: service.name.clone(),
                    state: service.state,
                });
            }
        }
        for tool in context.own_tools {
            let own = || vec![McpTarget::OwnTool { name: tool.clone() }];
            names.entry(key(tool)).or_insert_with(own);
        }
        // If a tool has the name of a service, the name refers to the tool, not to all tools of the service.
        for service in context.services {
            let (name, state) = (service.name.clone(), service.state);
            let whole = || vec![McpTarget::Service { name, state }];
            names.entry(key(&service.name)).or_insert_with(whole);
        }
        names.remove("");
        KnownNames(names)
    }

    /// The longest known name that starts at this token, and the index after it.
    fn at(&self, words: &Words<'_>, at: usize) -> Option<(Vec<McpTarget>, usize)> {
        let longest = (1..=MAX_BETWEEN).rev().find_map(|length| {
            let tokens = words.tokens().get(at..at + length)?;
            let is_name = tokens
                .iter()
                .all(|token| matches!(token.kind, TokenKind::Word | TokenKind::Han))
                || matches!(tokens, [token] if token.kind == TokenKind::Quoted);
            let name: String = tokens.iter().map(|token| token.text.as_str()).collect();
            let targets = self.0.get(&key(&name)).filter(|_| is_name)?;
            Some((targets.clone(), at + length))
        });
        longest.filter(|_| !self.0.is_empty())
    }
}

fn key(name: &str) -> String {
    let letters = name
        .chars()
        .filter(|c| !c.is_whitespace() && !"-_./:".contains(*c));
    letters.flat_map(char::to_lowercase).collect()
}
