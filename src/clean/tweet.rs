//! What makes a tweet a tweet goes: retweet prefixes, mentions, emoticons, emoji, addresses, the signs of hashtags
//! (paper §3.2). Letters of every script, digits and their separators stay.
//!
//! One scan from left to right; everything is recognised by its position, so `#fire` cannot touch `#firefighter`. What a
//! scan leaves may hold something for the next (`:D` followed by an address), so [`super::Cleaner`] scans until
//! nothing changes.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use super::{characters::joins, emoji, emoticon, output::Output, url};

/// A scanned tweet and where its hashtags, now without their signs, stand in it.
pub(super) struct Scan {
    pub(super) text: String,
    pub(super) tags: Vec<Range<usize>>,
}

/// Scans `text`, whose characters are normalised.
pub(super) fn scan(text: &str) -> Scan {
    let mut out = Output::with_capacity(text.len());
    let mut tags = Vec::new();
    let bare_addresses =
        text.contains('/') || text.contains("www.") || text.contains("t.co") || text.contains("pic.t");
    let mut rest = text;
    let mut before: Option<char> = None;
    let mut open_bracket = false;

    while let Some(c) = rest.chars().next() {
        if let Some(length) =
            removable(c, rest, &Place { before, first: out.is_empty(), bare_addresses, open_bracket })
        {
            out.gap();
            before = Some(' ');
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if is_hash(c) {
            let word = tag_word(after);
            if !word.is_empty() {
                if out.as_str().ends_with(is_word) {
                    out.space(); // "#a#b" are two words
                }
                let tag = push_word(&mut out, word);
                // "#1" and "#27.5" are numbers, not tags.
                if word.chars().any(char::is_alphabetic) {
                    tags.push(tag);
                    before = Some(' ');
                } else {
                    before = word.chars().next_back();
                }
            } else if before.is_some_and(is_word) {
                out.push(c, after.chars().next()); // "C#" is a name
                before = Some(c);
            } else {
                out.gap(); // any other lone sign says nothing
                before = Some(' ');
            }
            rest = after.get(word.len()..).unwrap_or_default();
            continue;
        }
        let left_over = out.is_empty() && leads_nowhere(c, after);
        if !left_over && !disappears(c, before) {
            out.push(c, after.chars().next());
            before = Some(c);
            open_bracket = c == '(' || (open_bracket && c != ')');
        }
        rest = after;
    }

    let kept = without_dangling_end(out.as_str()).len();
    out.truncate(kept);
    Scan { text: out.into_string(), tags }
}

/// Writes a hashtag's word and says where it stands.
fn push_word(out: &mut Output, word: &str) -> Range<usize> {
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter, letters.peek().copied());
    }
    let end = out.as_str().len();
    end - word.len()..end
}

/// What stands before the rest of a text.
struct Place {
    before: Option<char>,
    /// Nothing was kept yet.
    first: bool,
    /// An address without a scheme may follow.
    bare_addresses: bool,
    /// A bracket is open.
    open_bracket: bool,
}

/// Length of what begins here and goes, leaving a gap.
fn removable(c: char, rest: &str, place: &Place) -> Option<usize> {
    let before = place.before;
    let word_start = !before.is_some_and(is_word);
    match c {
        'h' | 'H' | 'f' | 'F' => {
            if let Some(length) = url::length(before, rest) {
                return Some(length);
            }
        }
        '@' | '＠' => return mention(before, rest),
        _ if word_start && place.bare_addresses && c.is_ascii_alphanumeric() => {
            if let Some(length) = url::length(before, rest) {
                return Some(length);
            }
        }
        _ => {}
    }
    if word_start && matches!(c, 'R' | 'r' | 'M' | 'm') {
        return retweet_mark(rest, place.first);
    }
    if !c.is_ascii() {
        if c == '¯' {
            return emoticon::length(before, rest, place.open_bracket);
        }
        let shown_as_emoji = || rest.chars().nth(1) == Some(emoji::EMOJI_STYLE);
        return (emoji::is_emoji(c) || (emoji::is_sign(c) && shown_as_emoji())).then_some(c.len_utf8());
    }
    // What an emoticon can begin with; most characters cannot.
    if matches!(
        c,
        ':' | ';' | '=' | '8' | 'B' | '<' | '>' | '^' | '-' | 'T' | 'o' | 'O' | '\\' | 'x' | 'X' | '('
    ) {
        return emoticon::length(before, rest, place.open_bracket);
    }
    None
}

/// `RT`, `MT` before a mention (which goes by itself), or `RT` as the first word.
fn retweet_mark(rest: &str, first: bool) -> Option<usize> {
    let (mark, after) = rest.split_at_checked(2)?;
    if !mark.eq_ignore_ascii_case("RT") && !mark.eq_ignore_ascii_case("MT") {
        return None;
    }
    if after.starts_with(is_word) {
        return None;
    }
    let separators = after.len() - after.trim_start_matches(|c: char| c.is_whitespace() || c == ':').len();
    let quoted = after.get(separators..)?;
    let name = quoted.strip_prefix(['"', '“', '«', '\'', '‘']).unwrap_or(quoted);
    let marks_a_mention = name.starts_with(['@', '＠']) && mention(None, name).is_some();
    let first_word = first
        && mark == "RT"
        && (after.is_empty() || after.starts_with(':') || after.starts_with(char::is_whitespace));
    (marks_a_mention || first_word).then_some(2 + separators)
}

/// `@name`, a list's `@name/list`, with the colon or the genitive after it. The rules for what is a name are Twitter's:
/// an e-mail address is none, nor is what goes on with a letter that names cannot have.
fn mention(before: Option<char>, rest: &str) -> Option<usize> {
    if before
        .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '＠' | '\u{c0}'..='\u{24f}'))
    {
        return None;
    }
    let after_sign = rest.strip_prefix(['@', '＠'])?;
    let name = name_length(after_sign);
    let mut after = after_sign.get(name..)?;
    if name == 0 || after.starts_with(|c: char| matches!(c, '@' | '＠' | '\u{c0}'..='\u{24f}')) {
        return None;
    }
    if let Some(list) = after.strip_prefix('/') {
        let list_name = name_length(list);
        if list_name > 0 {
            after = list.get(list_name..)?;
        }
    }
    if let Some(genitive) = after.strip_prefix("'s").or_else(|| after.strip_prefix("’s"))
        && !genitive.starts_with(is_word)
    {
        after = genitive;
    }
    if let Some(text) = after.trim_start_matches(' ').strip_prefix(':')
        && (text.is_empty() || text.starts_with(char::is_whitespace))
    {
        after = text;
    }
    Some(rest.len() - after.len())
}

fn name_length(text: &str) -> usize {
    text.bytes().take_while(|&byte| byte.is_ascii_alphanumeric() || byte == b'_').count()
}

fn is_hash(c: char) -> bool {
    matches!(c, '#' | '＃')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The characters of a hashtag's word at the start of `text`; none where marks come first.
fn tag_word(text: &str) -> &str {
    if !text.starts_with(is_word) {
        return "";
    }
    let belongs = |c: char| {
        is_word(c) || (!c.is_ascii() && (is_combining_mark(c) || matches!(c, '\u{200c}' | '\u{200d}')))
    };
    let belongs = |c: char| belongs(c) && !emoji::is_mark(c) && !emoji::is_emoji(c);
    let end = text.find(|c: char| !belongs(c)).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Marks of emoji, and joiners that joined emoji; they leave no gap.
fn disappears(c: char, before: Option<char>) -> bool {
    !c.is_ascii()
        && (emoji::is_mark(c)
            || (matches!(c, '\u{200d}' | '\u{200c}')
                && !before.is_some_and(|b| joins(b) || is_combining_mark(b))))
}

/// Punctuation that a removed prefix left at the start, as in ": text" or "... text". Signs of numbers stay.
fn leads_nowhere(c: char, after: &str) -> bool {
    let alone = |c: char| {
        matches!(
            c,
            '.' | '-'
                | '–'
                | '—'
                | '…'
                | '•'
                | '·'
                | '>'
                | '*'
                | '!'
                | '?'
                | '/'
                | ')'
                | ']'
                | ':'
                | ';'
                | ','
                | '|'
                | '~'
        )
    };
    match c {
        ':' | ';' | ',' | '|' | '~' => !after.starts_with(|c: char| c.is_ascii_digit()),
        // Others only where they stand alone; the end of a very long run need not be known.
        _ => alone(c) && after.chars().take(16).find(|&c| !alone(c)).is_none_or(char::is_whitespace),
    }
}

/// Fewest characters of a tweet that its platform may have cut: the limit was 140, and a retweet's prefix is gone here.
const CUT_FROM: usize = 100;

/// `text` without a number that the cut of a long tweet broke off: of "room for 120" it leaves "room for 12…", and a
/// wrong number is worse than none.
fn without_broken_number(text: &str) -> &str {
    let Some(cut) = text.trim_end().strip_suffix('…') else { return text };
    let word = cut.rsplit(char::is_whitespace).next().unwrap_or_default();
    let broken = word.starts_with(|c: char| c.is_ascii_digit()) && text.chars().count() >= CUT_FROM;
    if broken { cut.strip_suffix(word).unwrap_or(cut) } else { text }
}

/// `text` without what a cut or a removed address left at its end: ellipses, half a surrogate pair, lone separators.
fn without_dangling_end(text: &str) -> &str {
    let mut kept = without_broken_number(text);
    loop {
        let mut shorter = kept.trim_end().trim_end_matches(['…', '\u{fffd}']);
        let without_dots = shorter.trim_end_matches('.');
        if shorter.len() - without_dots.len() >= 2 {
            shorter = without_dots;
        }
        shorter = url::without_begun_address(shorter);
        // An ampersand of which the cut left only the beginning.
        shorter =
            ["&amp", "&am", "&lt", "&gt"].iter().find_map(|cut| shorter.strip_suffix(cut)).unwrap_or(shorter);
        if let Some(separated) = shorter.strip_suffix([
            '-', '–', '—', '|', ':', '~', '>', '(', '[', '"', '“', '/', '&', '•', '·', '+', '@',
        ]) && (separated.is_empty() || separated.ends_with(' '))
        {
            shorter = separated;
        }
        if shorter.len() == kept.len() {
            return kept;
        }
        kept = shorter;
    }
}
