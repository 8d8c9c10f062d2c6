//! The words that are understood in a sentence with the values of parameters, filler words included. Any other word is taken for a value, or
//! the sentence counts as unclear.

use std::collections::BTreeSet;

use dirigent_core::prompt::ParameterLine;

/// Words without a meaning for the parameters. Negations and "only", "or", "except" are not among them: what they say would be lost.
const FILLERS: &[&str] = &[
    "a",
    "an",
    "the",
    "this",
    "that",
    "these",
    "it",
    "its",
    "of",
    "for",
    "from",
    "and",
    "me",
    "my",
    "our",
    "us",
    "i",
    "we",
    "you",
    "please",
    "kindly",
    "can",
    "could",
    "would",
    "will",
    "should",
    "want",
    "need",
    "like",
    "let",
    "lets",
    "let's",
    "thanks",
    "thank",
    "now",
    "here",
    "there",
    "just",
    "new",
    "some",
    "all",
    "every",
    "each",
    "everywhere",
    "whole",
    "is",
    "are",
    "be",
    "do",
    "does",
    "make",
    "makes",
    "create",
    "build",
    "write",
    "written",
    "set",
    "start",
    "add",
    "generate",
    "give",
    "use",
    "using",
    "by",
    "as",
    "find",
    "list",
    "show",
    "look",
    "rename",
    "change",
    "replace",
    "run",
    "execute",
    "check",
    "minimal",
    "small",
    "simple",
    "little",
    "project",
    "package",
    "app",
    "application",
    "program",
    "library",
    "crate",
    "module",
    "function",
    "method",
    "class",
    "struct",
    "type",
    "variable",
    "constant",
    "symbol",
    "file",
    "folder",
    "directory",
    "path",
    "text",
    "string",
    "word",
    "language",
    "programming",
    "usage",
    "usages",
    "uses",
    "occurrences",
    "references",
    "workspace",
    "called",
    "named",
    "name",
    "to",
    "into",
    "with",
    "in",
    "under",
    "inside",
    "within",
    "at",
    "请",
    "帮我",
    "帮忙",
    "帮",
    "麻烦",
    "麻烦你",
    "你",
    "我",
    "我要",
    "我想",
    "我想要",
    "想要",
    "要",
    "给我",
    "创建",
    "新建",
    "建立",
    "建",
    "生成",
    "做",
    "写",
    "编写",
    "一个",
    "一下",
    "个",
    "的",
    "新",
    "项目",
    "工程",
    "包",
    "库",
    "程序",
    "应用",
    "用",
    "使用",
    "语言",
    "把",
    "将",
    "函数",
    "变量",
    "类",
    "方法",
    "符号",
    "查找",
    "找",
    "找出",
    "所有",
    "全部",
    "用法",
    "引用",
    "替换",
    "重命名",
    "改名",
    "运行",
    "执行",
    "吧",
    "谢谢",
    "和",
    "名字",
    "名称",
    "文件",
    "文件夹",
    "目录",
    "里",
    "里面",
    "中",
    "下",
    "下面",
    "在",
    "文本",
    "工作区",
];
/// Words after which a name comes.
const NAMING: &[&str] = &[
    "called",
    "named",
    "叫",
    "叫做",
    "名叫",
    "名为",
    "命名为",
    "称为",
    "名字叫",
    "名字是",
    "名字为",
    "名称是",
    "名称为",
    "起名",
];
/// Words after which the second of two values comes.
const TARGETS: &[&str] = &[
    "to",
    "into",
    "with",
    "by",
    "as",
    "为",
    "成",
    "到",
    "改为",
    "改成",
    "改名为",
    "重命名为",
    "重命名成",
    "替换为",
    "替换成",
    "换成",
];
/// Words after which a place comes.
const PLACES: &[&str] = &["in", "under", "inside", "within", "at", "在"];
/// Words between a parameter's name and its value.
const LINKS: &[&str] = &[
    "is", "are", "be", "should", "as", "of", "the", "a", "an", "equals", "=", "called", "named", "是", "为",
    "设为", "叫",
];
/// Words that switch a following parameter off.
const NEGATIONS: &[&str] = &["no", "not", "without", "不", "不要", "没有"];

/// The known words, with those of a workflow.
pub(super) struct Lexicon {
    /// The names of the parameters, in lower case.
    parameters: BTreeSet<String>,
    /// The words of the workflow's name and description and of the parameters' names.
    of_workflow: BTreeSet<String>,
    /// The choices in Chinese.
    choices: Vec<String>,
}

impl Lexicon {
    pub fn new(workflow: &str, parameters: &[ParameterLine]) -> Self {
        let names = parameters.iter().map(|parameter| parameter.name.as_str());
        let has_meaning =
            |word: &&str| ["only", "or", "if", "except", "but"].contains(word) || NEGATIONS.contains(word);
        let of_workflow = workflow.to_lowercase();
        let of_workflow = of_workflow.split(|c: char| !c.is_alphanumeric());
        let of_names = names.clone().flat_map(|name| name.split('_'));
        let known = of_workflow.filter(|word| !has_meaning(word)).chain(of_names);
        Lexicon {
            parameters: names.map(str::to_lowercase).collect(),
            of_workflow: known
                .filter(|word| word.chars().count() > 1)
                .map(str::to_owned)
                .collect(),
            choices: parameters
                .iter()
                .flat_map(|parameter| parameter.choices.clone())
                .collect(),
        }
    }

    pub fn is_parameter(&self, word: &str) -> bool {
        self.parameters.contains(&word.to_lowercase())
    }

    /// Returns true if the word has no meaning of its own for the parameters.
    pub fn is_filler(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let in_other_form = [
            format!("{word}s"),
            format!("{word}es"),
            word.trim_end_matches('s').to_owned(),
        ];
        FILLERS.contains(&word.as_str())
            || TARGETS.contains(&word.as_str())
            || NAMING.contains(&word.as_str())
            || self.of_workflow.contains(&word)
            || in_other_form.iter().any(|form| self.of_workflow.contains(form))
    }

    /// Splits Chinese text into known phrases, each as long as possible. Other text between them stays together.
    pub fn phrases<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut phrases = Vec::new();
        let mut unknown = 0;
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            match self.longest(&text[at..]) {
                Some(length) => {
                    if unknown < at {
                        phrases.push(&text[unknown..at]);
                    }
                    phrases.push(&text[at..at + length]);
                    at += length;
                    unknown = at;
                }
                None => at += c.len_utf8(),
            }
        }
        if unknown < at {
            phrases.push(&text[unknown..]);
        }
        phrases
    }

    /// Returns the length of the longest known phrase at the beginning of the text.
    fn longest(&self, text: &str) -> Option<usize> {
        let fixed = [FILLERS, NAMING, TARGETS, PLACES, LINKS, NEGATIONS];
        let fixed = fixed.into_iter().flatten().copied();
        let own = self.choices.iter().chain(&self.parameters).map(String::as_str);
        fixed
            .chain(own)
            .filter(|phrase| text.starts_with(phrase))
            .map(str::len)
            .max()
    }
}

pub(super) fn is_naming(word: &str) -> bool {
    NAMING.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_target(word: &str) -> bool {
    TARGETS.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_place(word: &str) -> bool {
    PLACES.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_link(word: &str) -> bool {
    LINKS.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_negation(word: &str) -> bool {
    NEGATIONS.contains(&word.to_lowercase().as_str())
}
