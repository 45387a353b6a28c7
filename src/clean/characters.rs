//! One text, one spelling: entities decoded however often they were encoded, Unicode NFC, invisible and control
//! characters gone.
//!
//! White space is left as it is, because lines still matter to [`super::prose`]. What the decoder and the filter give
//! is settled in one pass over the text: neither can bring forth something the other would have to see again.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::emoji;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// Longest entity, ampersand and semicolon included (`&CounterClockwiseContourIntegral;`).
const LONGEST_ENTITY: usize = 33;

/// Decodes, filters and composes `text`.
pub(super) fn normalise(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r') && byte != b'&';
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }

    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_visible(&mut out, c);
        // `&amp;lt;` becomes `&lt;` and that `<`: every semicolon is asked whether it ends an entity by now.
        let mut ends_an_entity = c == ';';
        while ends_an_entity {
            ends_an_entity = decode_last_entity(&mut out);
        }
    }
    drop_open_joiner(&mut out, None);

    match is_nfc_quick(out.chars()) {
        IsNormalized::Yes => Cow::Owned(out),
        _ => Cow::Owned(out.nfc().collect()),
    }
}

/// Decodes the entity at the end of `out`, if there is one; true where another may end there now.
fn decode_last_entity(out: &mut String) -> bool {
    let Some(start) =
        out.char_indices().rev().take(LONGEST_ENTITY).find(|&(_, c)| c == '&').map(|(at, _)| at)
    else {
        return false;
    };
    let Some(decoded) = out.get(start..).and_then(decode_entity) else { return false };
    out.truncate(start);
    for c in decoded.chars() {
        push_visible(out, c);
    }
    decoded.ends_with(';')
}

/// What `entity` stands for. A surrogate or a number outside Unicode stands for nothing readable (U+FFFD), as in HTML.
fn decode_entity(entity: &str) -> Option<Cow<'static, str>> {
    let name = entity.strip_prefix('&')?.strip_suffix(';')?;
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                u32::from_str_radix(hex, 16).ok()?
            }
            None if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().ok()?,
            _ => return None,
        };
        let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        return Some(c.to_string().into());
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let decoded = html_escape::decode_html_entities(entity);
    (decoded != entity).then(|| decoded.into_owned().into())
}

fn push_visible(out: &mut String, c: char) {
    if c.is_ascii() {
        if c.is_ascii_control() && !c.is_ascii_whitespace() {
            return;
        }
    } else if matches!(c, ZERO_WIDTH_JOINER | ZERO_WIDTH_NON_JOINER) {
        let wanted = out.chars().next_back().is_some_and(|before| {
            joins(before) || (c == ZERO_WIDTH_JOINER && emoji::is_part_of_sequence(before))
        });
        if wanted {
            out.push(c);
        }
        return;
    } else if is_invisible(c) && !(emoji::is_tag(c) && ends_with_flag(out)) {
        return;
    }
    drop_open_joiner(out, Some(c));
    out.push(c);
}

/// A joiner stays only between two characters that it can join.
fn drop_open_joiner(out: &mut String, next: Option<char>) {
    let Some(joiner @ (ZERO_WIDTH_JOINER | ZERO_WIDTH_NON_JOINER)) = out.chars().next_back() else { return };
    let after_word = out.chars().rev().nth(1).is_some_and(joins);
    let wanted = if after_word {
        next.is_some_and(joins) || joiner == ZERO_WIDTH_JOINER // at a word's end it shapes the last letter
    } else {
        next.is_some_and(emoji::is_part_of_sequence)
    };
    if !wanted {
        out.pop();
    }
}

/// Scripts whose spelling needs joiners: Arabic and Syriac, the Indic ones, Myanmar, Khmer, Mongolian.
pub(super) fn joins(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
        | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
}

fn ends_with_flag(out: &str) -> bool {
    out.chars().next_back().is_some_and(|before| emoji::is_tag(before) || before == emoji::BLACK_FLAG)
}

/// Format characters that show nothing, control characters, fillers and noncharacters. White space is not among them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' // controls; U+0085 is a line's end
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e00ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_decoded_however_often_they_were_encoded() {
        for (encoded, plain) in [
            ("&amp;amp;", "&"),
            ("&amp;lt;3", "<3"),
            ("a &amp;amp;amp;gt; b", "a > b"),
            ("&#39;&#x27;&quot;&nbsp;.", "''\"\u{a0}."),
            ("caf&eacute;", "café"),
            ("&amp&semi;", "&"),
            ("&a&#8203;mp;", "&"),
            ("&#82&#8205;05;x", "x"),
            ("AT&T; &nosuch; &#; &#x; & ;", "AT&T; &nosuch; &#; &#x; & ;"),
            ("&#xd83d;", "\u{fffd}"),
        ] {
            assert_eq!(normalise(encoded), plain, "{encoded}");
            assert_eq!(normalise(plain), plain, "{plain}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_other_invisible_characters_go() {
        assert_eq!(normalise("\u{feff}Fl\u{ad}o\u{200b}od\u{202c}\u{0}\u{7f}"), "Flood");
        assert_eq!(normalise("one\ttwo\u{85}three"), "one\ttwo\u{85}three");
    }

    #[test]
    fn joiners_stay_where_a_script_needs_them_and_nowhere_else() {
        for kept in ["می\u{200c}خواهم", "क\u{94d}\u{200d}ष", "👩\u{200d}🚒"] {
            assert_eq!(normalise(kept), kept);
        }
        assert_eq!(normalise("fi\u{200d}re می\u{200c} x"), "fire می x");
    }

    #[test]
    fn accents_are_composed() {
        assert_eq!(normalise("Me\u{301}xico"), "M\u{e9}xico");
    }
}
