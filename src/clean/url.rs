//! Where an address begins and ends: with a scheme, bare (`t.co/x`, `www.x.org`), or cut short (`http://t…`, `https:/`).
//!
//! A finder for whole addresses is not enough here: a scheme is found in the middle of a word as well
//! (`video:http://…`, `fire...http://…`), and what a cut left must go too.

/// Top-level domains that a bare address with a path may have. Others are more often a missing space ("St.Louis/KC").
const BARE_DOMAINS: &[&str] = &[
    "at", "au", "be", "biz", "br", "ca", "cc", "ch", "cl", "co", "com", "cr", "de", "edu", "es", "eu", "fm",
    "fr", "gd", "gl", "gov", "ie", "im", "in", "info", "int", "io", "is", "it", "jp", "ly", "me", "mil",
    "mp", "mx", "net", "nl", "nz", "org", "ph", "pl", "pt", "ru", "se", "sg", "sh", "st", "to", "tv", "uk",
    "us", "ws",
];
/// Bare addresses of which a cut may have left the host alone.
const SHORTENERS: &[&str] = &["t.co", "pic.twitter.com"];

/// Length in bytes of the address at the start of `rest`; `before` is the character that precedes it. Punctuation that
/// belongs to the sentence is not counted, the ellipsis of a cut is.
pub(super) fn length(before: Option<char>, rest: &str) -> Option<usize> {
    let length = with_scheme(before, rest).or_else(|| bare(before, rest))?;
    let after = rest.get(length..).unwrap_or_default();
    Some(length + cut(after).unwrap_or(0))
}

/// `text` without the beginning of an address at its end, of which a cut left not even the slashes.
pub(super) fn without_begun_address(text: &str) -> &str {
    let shorter = ["://", ":/", ":"].iter().find_map(|end| text.strip_suffix(end)).unwrap_or(text);
    let begun = ["https", "http"].into_iter().find_map(|scheme| {
        let start = shorter.len().checked_sub(scheme.len())?;
        shorter.get(start..)?.eq_ignore_ascii_case(scheme).then_some(start)
    });
    match begun.and_then(|start| text.get(..start)) {
        Some(kept) if kept.is_empty() || kept.ends_with(' ') => kept,
        _ => text,
    }
}

/// Length of the ellipsis with which a cut text goes on: `…`, `...` or `. ...`.
fn cut(after: &str) -> Option<usize> {
    let rest = after.trim_start_matches(['.', '…', ' ']);
    let mark = after.get(..after.len() - rest.len())?.trim_end();
    (mark.contains("...") || mark.starts_with('…')).then_some(mark.len())
}

fn with_scheme(before: Option<char>, rest: &str) -> Option<usize> {
    let scheme = ["https", "http", "ftp"].into_iter().find(|&scheme| starts_with_ignoring_case(rest, scheme));
    let Some(scheme) = scheme else {
        // `htt…`: only the ellipsis tells that an address began here.
        let begun = ["htt", "ht"].into_iter().find(|&begun| starts_with_ignoring_case(rest, begun))?;
        let alone = before.is_none_or(char::is_whitespace);
        return (alone && cut(rest.get(begun.len()..)?).is_some()).then_some(begun.len());
    };
    let after = rest.get(scheme.len()..)?;
    if let Some(address) = after.strip_prefix("://") {
        return Some(scheme.len() + 3 + body(address));
    }
    if let Some(address) = after.strip_prefix(":/")
        && address.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        return Some(scheme.len() + 2 + body(address)); // a slash was forgotten
    }
    let left = after.strip_prefix(":/").or_else(|| after.strip_prefix(':')).unwrap_or(after);
    let counted = scheme.len() + after.len() - left.len();
    let alone = before.is_none_or(|c| !c.is_alphanumeric());
    (alone && cut(left).is_some()).then_some(counted)
}

fn bare(before: Option<char>, rest: &str) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '/')) {
        return None;
    }
    let host_length =
        rest.bytes().take_while(|&b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')).count();
    let (host, path) = rest.split_at_checked(host_length)?;
    let (host, path) =
        if path.starts_with('/') { (host, path) } else { (host.trim_end_matches(['.', '-']), "") };
    let (name, domain) = host.rsplit_once('.')?;
    if name.is_empty() || name.ends_with('.') {
        return None;
    }
    if starts_with_ignoring_case(host, "www.") && !domain.is_empty() && name.contains('.') {
        return Some(host.len() + body(path));
    }
    if path.is_empty() && SHORTENERS.iter().any(|shortener| host.eq_ignore_ascii_case(shortener)) {
        return Some(host.len());
    }
    let known = BARE_DOMAINS.iter().any(|known| domain.eq_ignore_ascii_case(known));
    // `path` holds the slash; after it something, or the place where the text was cut.
    (known && path.starts_with('/')).then(|| host.len() + body(path).max(1))
}

/// Length of the characters that an address may have, without the punctuation of the sentence around it.
fn body(rest: &str) -> usize {
    // An address as the text of a Markdown link ends with that text.
    let ends = |at: usize, c: char| !belongs(c) || rest.get(at..).is_some_and(|from| from.starts_with("]("));
    let end = rest.char_indices().find(|&(at, c)| ends(at, c)).map_or(rest.len(), |(at, _)| at);
    let mut body = rest.get(..end).unwrap_or(rest);
    let count = |sign: char| body.matches(sign).count();
    let mut round = (count('('), count(')'));
    let mut square = (count('['), count(']'));
    while let Some(last) = body.chars().next_back() {
        let of_the_sentence = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' => true,
            ')' => closes_more(&mut round),
            ']' => closes_more(&mut square),
            _ => false,
        };
        if !of_the_sentence {
            break;
        }
        body = body.get(..body.len() - 1).unwrap_or_default();
    }
    body.len()
}

/// Whether more brackets close than open; if so, one closing bracket is given back.
fn closes_more((opened, closed): &mut (usize, usize)) -> bool {
    let more = *closed > *opened;
    *closed -= usize::from(more);
    more
}

/// RFC 3986, and letters with accents as in `/wiki/Tiriñón`; letters of other scripts follow an address without a
/// space and are text.
fn belongs(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c) || matches!(c, '\u{c0}'..='\u{24f}')
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_whole() {
        for (text, address) in [
            ("http://t.co/Ab1 x", "http://t.co/Ab1"),
            ("HTTPS://example.org/a?b=c#d, x", "HTTPS://example.org/a?b=c#d"),
            ("https://en.wikipedia.org/wiki/Haze_(2013)) x", "https://en.wikipedia.org/wiki/Haze_(2013)"),
            ("http://t.co/Ab1).", "http://t.co/Ab1"),
            ("http://example.org/Tiriñón”", "http://example.org/Tiriñón"),
            ("http://t.co/Ab1地震", "http://t.co/Ab1"),
            ("t.co/Ab1!", "t.co/Ab1"),
            ("pic.twitter.com/x9 y", "pic.twitter.com/x9"),
            ("www.example.org.", "www.example.org"),
            ("http://t…", "http://t…"),
            ("https:/…", "https:/…"),
            ("http:…", "http:…"),
            ("http…", "http…"),
            ("htt…", "htt…"),
            ("http://", "http://"),
            ("t.co/…", "t.co/…"),
            ("htt ...", "htt ..."),
            ("http://t. ... x", "http://t. ..."),
            ("http:... x", "http:..."),
            ("t.co", "t.co"),
            ("t.co. x", "t.co"),
            ("http:/example.org/a b", "http:/example.org/a"),
        ] {
            assert_eq!(length(None, text), Some(address.len()), "{text}");
        }
        assert_eq!(length(Some(':'), "http://t.co/a"), Some(13));
        assert_eq!(length(Some('.'), "http://t.co/a"), Some(13));
    }

    #[test]
    fn a_begun_address_at_the_end_goes() {
        for (text, kept) in
            [("a http", "a "), ("a HTTPS:/", "a "), ("http:", ""), ("xhttp", "xhttp"), ("a:", "a:")]
        {
            assert_eq!(without_begun_address(text), kept, "{text}");
        }
    }

    #[test]
    fn words_with_dots_and_slashes_are_no_addresses() {
        for text in [
            "and/or",
            "24/7",
            "3.5/10",
            "U.S./Canada",
            "a.m./p.m.",
            "St.Louis/KC",
            "http is",
            "ht",
            "www.",
            "...",
            "www..x",
        ] {
            assert_eq!(length(None, text), None, "{text}");
        }
        assert_eq!(length(Some('@'), "example.com/x"), None);
    }
}
