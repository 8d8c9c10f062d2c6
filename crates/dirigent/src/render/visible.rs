//! Text of models and tools that is safe to show: it cannot control a terminal, hide a part of itself or change its order.

use std::fmt::Write as _;

/// Makes text from models and tools safe to print: replaces control characters, bidirectional controls and zero-width characters with
/// `U+FFFD`. For text that the user needs for a decision, use [`escape_invisible`].
pub fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { '\u{fffd}' } else { c })
        .collect()
}

/// Makes text safe to print and unambiguous. Characters that [`sanitize`] would replace, other invisible characters, and whitespace
/// except spaces and line breaks are shown as code points, such as `⟨U+202E⟩`.
pub fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let blank = c.is_whitespace() && c != ' ' && c != '\n';
        if is_harmful(c) || blank || is_invisible(c) {
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns true for control characters, bidirectional controls and zero-width characters, which affect the terminal or disguise text.
fn is_harmful(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let zero_width = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() && c != '\n' && c != '\t' || direction || zero_width
}

/// Returns true for invisible characters that occur in ordinary text: joiners, variation selectors and fillers.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}')
}
