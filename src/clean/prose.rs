//! Posts, comments and news: addresses and the furniture of web pages go; everything a person wrote stays, emoji,
//! mentions and hashtags too.

use super::{output::Output, url};

/// Whole lines that sites print around a text, lower-cased, without the punctuation at their ends.
const FURNITURE: &[&str] = &[
    "ad",
    "advertisement",
    "advertisement - continue reading below",
    "advertisements",
    "all rights reserved",
    "article continues below",
    "article continues below advertisement",
    "click here to subscribe",
    "click to share",
    "continue reading",
    "continue reading below",
    "loading",
    "more on this story",
    "read more",
    "read more here",
    "read the full story",
    "recommended",
    "related articles",
    "related stories",
    "scroll to continue",
    "share",
    "share on facebook",
    "share on twitter",
    "share this",
    "share this article",
    "share this story",
    "sign up for our newsletter",
    "sign up for our newsletters",
    "skip advertisement",
    "sponsored content",
    "story continues below",
    "story continues below advertisement",
    "subscribe",
    "subscribe now",
    "subscribe to our newsletter",
    "tweet this",
    "view comments",
    "watch video",
];

/// Characters in which a link's target must end.
const LONGEST_TARGET: usize = 2_000;

/// Scans `text`, whose characters are normalised. `markdown` is what Reddit writes links in.
pub(super) fn scan(text: &str, markdown: bool) -> String {
    let mut out = Output::with_capacity(text.len());
    // Length of the output before the bracket of every link that is still open.
    let mut open: Vec<usize> = Vec::new();

    for line in text.lines().filter(|line| !is_furniture(line)) {
        let mut rest = line;
        let mut before: Option<char> = None;
        while let Some(c) = rest.chars().next() {
            let after = rest.get(c.len_utf8()..).unwrap_or_default();
            if markdown
                && c == ']'
                && let Some(start) = open.pop()
                && let Some(target) = link_target(after)
                && out.remove_bracket(start)
            {
                rest = after.get(target..).unwrap_or_default();
                before = Some(' ');
                continue;
            }
            let may_begin_an_address = c.is_ascii_alphanumeric()
                && (matches!(c, 'h' | 'H' | 'f' | 'F') || !before.is_some_and(char::is_alphanumeric));
            if may_begin_an_address && let Some(length) = url::length(before, rest) {
                out.gap();
                before = Some(' ');
                rest = rest.get(length..).unwrap_or_default();
                continue;
            }
            out.push(c, after.chars().next());
            if markdown && c == '[' {
                open.push(out.as_str().len() - 1);
            }
            before = Some(c);
            rest = after;
        }
        out.space();
    }
    out.into_string().trim_end_matches(|c: char| c.is_whitespace() || c == '\u{fffd}').to_owned()
}

fn is_furniture(line: &str) -> bool {
    // Longer lines than the longest entry need no look.
    let line = line.trim_matches(|c: char| !c.is_alphanumeric());
    line.len() <= 40 && FURNITURE.iter().any(|furniture| furniture.eq_ignore_ascii_case(line))
}

/// Length of `(address)` or `(address "title")` at the start of `after`.
fn link_target(after: &str) -> Option<usize> {
    let target = after.strip_prefix('(')?;
    let mut depth = 1_u32;
    for (at, c) in target.char_indices().take(LONGEST_TARGET) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let inside = target.get(..at)?;
            let address = inside.split_whitespace().next().unwrap_or_default();
            let is_address =
                address.contains("://") || address.starts_with(['/', '#']) || address.contains('.');
            return is_address.then_some(at + 2);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reddit_links_keep_their_text() {
        for (text, clean) in [
            ("See [the map](https://example.org/a_(b)) now", "See the map now"),
            ("[a [b](http://x.org/1) c](/r/y) d", "a b c d"),
            ("[1] and [x](see below)", "[1] and [x](see below)"),
            ("[t](http://x.org \"title\").", "t."),
            ("[http://x.org/1](http://x.org/1) d", "d"),
        ] {
            assert_eq!(scan(text, true), clean, "{text}");
        }
        assert_eq!(scan("a [b](http://x.org/1) c", false), "a [b] c");
    }

    #[test]
    fn furniture_goes_only_as_a_whole_line() {
        assert_eq!(
            scan("Two bridges closed.\nADVERTISEMENT\n\nRead more »\r\nShare this with us", false),
            "Two bridges closed. Share this with us"
        );
        assert_eq!(scan("Advertisement", false), "");
        assert_eq!(scan("The river rose; read more", false), "The river rose; read more");
    }

    #[test]
    fn emoji_mentions_tags_and_numbers_stay() {
        for kept in ["🔥 @chief #fire :) 27.5 C, 3,300 homes <3", "RT the word", "nine…"] {
            assert_eq!(scan(kept, true), kept);
        }
        assert_eq!(scan("see http://x.org/1, then\u{fffd}", false), "see, then");
    }
}
