//! A parser of server-sent events, fed with pieces of any size. It reads each byte once and does not interpret the events' data.
//!
//! Lines end with LF, CRLF or CR. Comments, and fields other than `data`, are skipped. Text is decoded per event, so a piece may end
//! within a character.

/// Parser of one stream.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    /// The line in progress.
    line: Vec<u8>,
    /// Data of the event in progress; each line ends with LF.
    data: Vec<u8>,
    /// Set if the last piece ended with CR: a leading LF of the next piece then belongs to the same line end.
    after_cr: bool,
    /// Set when the first line is complete: only the first line may begin with a byte order mark.
    past_first_line: bool,
}

impl SseParser {
    /// Parses a piece, and appends the data of each completed event to `events`.
    pub(super) fn feed(&mut self, mut piece: &[u8], events: &mut Vec<String>) {
        if piece.is_empty() {
            return;
        }
        if std::mem::take(&mut self.after_cr)
            && let Some(rest) = piece.strip_prefix(b"\n")
        {
            piece = rest;
        }
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&piece[..end]);
            self.end_line(events);
            let ended_by_cr = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if ended_by_cr {
                match piece.strip_prefix(b"\n") {
                    Some(rest) => piece = rest,
                    None => self.after_cr = piece.is_empty(),
                }
            }
        }
        self.line.extend_from_slice(piece);
    }

    /// Number of bytes buffered for the event in progress.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Returns the data of an unfinished event at the end of the stream: some servers omit the last empty line.
    pub(super) fn finish(mut self) -> Option<String> {
        let mut events = Vec::new();
        self.end_line(&mut events);
        self.end_event(&mut events);
        events.pop()
    }

    fn end_line(&mut self, events: &mut Vec<String>) {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.line.clear();
            return self.end_event(events);
        }
        if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [] => Some(value),
                [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
                _ => None,
            };
            if let Some(value) = value {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
        }
        self.line.clear();
    }

    fn end_event(&mut self, events: &mut Vec<String>) {
        if let Some(data) = self.data.strip_suffix(b"\n") {
            events.push(String::from_utf8_lossy(data).into_owned());
        }
        self.data.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::SseParser;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece, &mut events);
        }
        events.extend(parser.finish());
        events
    }

    #[test]
    fn lines_may_end_in_any_of_three_ways() {
        assert_eq!(events(&[b"data: a\n\ndata: b\n\n"]), ["a", "b"]);
        assert_eq!(events(&[b"data: a\r\n\r\ndata: b\r\n\r\n"]), ["a", "b"]);
        assert_eq!(events(&[b"data: a\r\rdata: b\r\r"]), ["a", "b"]);
        assert_eq!(
            events(&[b"data: a\r", b"\n\r", b"\ndata: b\r\n", b"\r\n"]),
            ["a", "b"]
        );
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        assert_eq!(
            events(&[b"data: {\ndata:  \"a\": 1\ndata\ndata:}\n\n"]),
            ["{\n \"a\": 1\n\n}"]
        );
    }

    #[test]
    fn only_data_fields_of_events_are_read() {
        let stream = b"\xef\xbb\xbf: hello\nevent: x\ndata: a\nid: 1\nretry: 5\ndatabase: no\n\n:\n\n\n";
        assert_eq!(events(&[stream]), ["a"]);
    }

    #[test]
    fn the_last_event_needs_no_empty_line() {
        assert_eq!(events(&[b"data: a\n\ndata: [DONE]"]), ["a", "[DONE]"]);
        assert_eq!(events(&[b"data: a\n"]), ["a"]);
        assert_eq!(events(&[b": nothing"]), Vec::<String>::new());
    }

    #[test]
    fn a_character_may_be_split_between_pieces() {
        let euro = "€".as_bytes();
        assert_eq!(
            events(&[b"data: ", &euro[..1], &euro[1..2], &euro[2..], b"\n\n"]),
            ["€"]
        );
    }

    proptest! {
        #[test]
        fn splitting_a_stream_differently_gives_the_same_events(
            text in "(data: ?[a-c€]{0,3}|: c|data|)((\n|\r|\r\n)(data: ?[a-c€]{0,3}|: c|data|)){0,20}",
            cuts in prop::collection::vec(0_usize..200, 0..30),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            prop_assert_eq!(events(&pieces), events(&[bytes]));
        }
    }
}
