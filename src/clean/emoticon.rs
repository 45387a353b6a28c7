//! Emoticons of punctuation and letters, only where they stand alone: `:/` is also part of an address and `8)` the
//! end of "(at 8)".

/// Emoticons that no rule builds, between white space or punctuation. Longer ones before those they begin with.
const FIXED: &[&str] = &[
    "<333",
    "<33",
    "<3",
    "</3",
    "^_^",
    "^.^",
    ">_<",
    ">.<",
    "-_-",
    "T_T",
    "o_O",
    "O_o",
    "O_O",
    "o_o",
    "¯\\_(ツ)_/¯",
    "\\o/",
    "\\m/",
    "xD",
    "XD",
    "xDD",
    "XDD",
    "(:",
    "(-:",
    "(;",
];

/// Length in bytes of the emoticon at the start of `rest`, where it stands alone after `before`.
///
/// Faces with round mouths are also written onto a word ("so sad:("); `open_bracket` says that the mouth may be the end
/// of a bracket instead, as in "(see:)".
pub(super) fn length(before: Option<char>, rest: &str, open_bracket: bool) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        let (length, mouth) = built(rest)?;
        let on_a_word = before.is_some_and(char::is_alphabetic) && rest.starts_with([':', ';']);
        let a_face = mouth == '(' || (mouth == ')' && !open_bracket);
        let ended = rest.get(length..)?.chars().next().is_none_or(char::is_whitespace);
        return (on_a_word && a_face && ended).then_some(length);
    }
    let (length, needs_space) = match built(rest) {
        Some((length, mouth)) => (length, matches!(mouth, '/' | '\\' | '|' | ']' | '[' | '*')),
        None => fixed(rest).map(|fixed| (fixed.len(), fixed.starts_with('(')))?,
    };
    let after = rest.get(length..)?.chars().next();
    let alone = if needs_space {
        // Mouths that are also signs of running text and of addresses.
        before.is_none_or(char::is_whitespace) && after.is_none_or(char::is_whitespace)
    } else {
        after.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    };
    alone.then_some(length)
}

fn fixed(rest: &str) -> Option<&'static str> {
    let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric());
    FIXED.iter().copied().find(|fixed| rest.strip_prefix(fixed).is_some_and(ends))
}

/// Eyes, perhaps a tear, perhaps a nose, and a mouth, which may be repeated; with the length the mouth.
fn built(rest: &str) -> Option<(usize, char)> {
    let eyes = rest.chars().next()?;
    if !matches!(eyes, ':' | ';' | '=' | '8' | 'B') {
        return None;
    }
    let mut at = 1;
    let mut next = rest.get(at..)?.chars().next()?;
    if next == '\'' && eyes == ':' {
        at += 1;
        next = rest.get(at..)?.chars().next()?;
    }
    let nose = matches!(next, '-' | 'o' | '^') && {
        // `:o` is a mouth unless another follows.
        let after_nose = rest.get(at + 1..)?.chars().next();
        next == '-' || after_nose.is_some_and(|c| matches!(c, ')' | '(' | 'D' | 'P'))
    };
    if nose {
        at += 1;
        next = rest.get(at..)?.chars().next()?;
    } else if matches!(eyes, '8' | 'B') {
        return None; // "(at 8)", "plan B)"
    }
    let mouth = next;
    let known = match eyes {
        '=' => matches!(mouth, ')' | '(' | 'D' | 'P' | 'p' | '/' | '\\' | ']' | '['),
        _ => matches!(
            mouth,
            ')' | '('
                | 'D'
                | 'P'
                | 'p'
                | 'o'
                | 'O'
                | 'S'
                | 's'
                | '/'
                | '\\'
                | '|'
                | ']'
                | '['
                | '*'
                | '}'
                | '{'
                | '$'
        ),
    };
    if !known {
        return None;
    }
    let repeats = rest.get(at..)?.chars().take_while(|&c| c == mouth).count();
    Some((at + repeats, mouth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emoticons_that_stand_alone_are_found_whole() {
        for emoticon in [
            ":)", ":-)", ":(", ":-(", ";)", ":D", ":))))", ":'(", "=)", ":P", ":o", ":-/", ":/", "<3", "</3",
            "xD", "8-)", "B-)", "^_^", "-_-", "T_T", "(:", ":S", ":*",
        ] {
            assert_eq!(length(None, emoticon, false), Some(emoticon.len()), "{emoticon}");
            assert_eq!(
                length(Some(' '), &format!("{emoticon} so"), false),
                Some(emoticon.len()),
                "{emoticon}"
            );
        }
        assert_eq!(length(Some('!'), ":).", false), Some(2));
    }

    #[test]
    fn faces_on_a_word_are_found_outside_brackets() {
        assert_eq!(length(Some('d'), ":(( x", true), Some(3));
        assert_eq!(length(Some('d'), ";) x", false), Some(2));
        assert_eq!(length(Some('d'), ":D x", false), None);
    }

    #[test]
    fn trap_times_addresses_and_brackets_are_no_emoticons() {
        for (before, rest) in [
            ('0', ":30"),
            ('p', "://x"),
            (' ', "8) and"),
            (' ', "B) or"),
            ('e', ":) x"),
            ('e', ":(x"),
            ('8', ":( x"),
            (' ', ":/x"),
            (' ', ":Dallas"),
            (' ', "<300"),
            (' ', ":3 0"),
            ('3', ":00"),
            ('T', "xD"),
            ('p', "):"),
            (' ', ": )"),
            (' ', "<3m"),
            ('x', "(:"),
        ] {
            assert_eq!(length(Some(before), rest, true), None, "{before}{rest}");
        }
    }
}
