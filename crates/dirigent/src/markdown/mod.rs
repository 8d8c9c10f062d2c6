//! Markdown files with front matter, which define agents and workflows: finds them in folders, reads them within size limits, and parses
//! their fields.

mod fields;
mod folder;
pub(crate) mod front_matter;

pub(crate) use fields::{Fields, hyphenated, join_names, truncated};
pub(crate) use folder::{MarkdownFile, files, read_file};
pub(crate) use front_matter::{Document, Field, FileError, Value};
