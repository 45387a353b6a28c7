//! Which characters are emoji. The property `Emoji` will not do: it contains the digits, `#` and `*`.

/// Starts the flags of England, Scotland and Wales.
pub(super) const BLACK_FLAG: char = '\u{1f3f4}';
/// Asks that the character before it be shown as an emoji.
pub(super) const EMOJI_STYLE: char = '\u{fe0f}';

/// Characters that are pictures by themselves: `Extended_Pictographic` without those that are signs in running text
/// (© ™ ℹ ‼ ↔ …), regional indicators, skin tones, and the private codes in which old telephones sent emoji.
pub(super) fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{231a}'..='\u{231b}' | '\u{2328}' | '\u{2388}' | '\u{23cf}' | '\u{23e9}'..='\u{23f3}'
        | '\u{23f8}'..='\u{23fa}' | '\u{25aa}'..='\u{25ab}' | '\u{25b6}' | '\u{25c0}' | '\u{25fb}'..='\u{25fe}'
        | '\u{2600}'..='\u{2605}' | '\u{2607}'..='\u{2612}' | '\u{2614}'..='\u{2685}' | '\u{2690}'..='\u{2705}'
        | '\u{2708}'..='\u{2712}' | '\u{2714}' | '\u{2716}' | '\u{271d}' | '\u{2721}' | '\u{2728}'
        | '\u{2733}'..='\u{2734}' | '\u{2744}' | '\u{2747}' | '\u{274c}' | '\u{274e}' | '\u{2753}'..='\u{2755}'
        | '\u{2757}' | '\u{2763}'..='\u{2767}' | '\u{2795}'..='\u{2797}' | '\u{27a1}' | '\u{27b0}' | '\u{27bf}'
        | '\u{2934}'..='\u{2935}' | '\u{2b05}'..='\u{2b07}' | '\u{2b1b}'..='\u{2b1c}' | '\u{2b50}' | '\u{2b55}'
        | '\u{3297}' | '\u{3299}' | '\u{e000}'..='\u{f8ff}' | '\u{1f000}'..='\u{1f0ff}' | '\u{1f10d}'..='\u{1f10f}'
        | '\u{1f12f}' | '\u{1f16c}'..='\u{1f171}' | '\u{1f17e}'..='\u{1f17f}' | '\u{1f18e}'
        | '\u{1f191}'..='\u{1f19a}' | '\u{1f1ad}'..='\u{1f1ff}' | '\u{1f201}'..='\u{1f20f}' | '\u{1f21a}'
        | '\u{1f22f}' | '\u{1f232}'..='\u{1f23a}' | '\u{1f23c}'..='\u{1f23f}' | '\u{1f249}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}' | '\u{1f774}'..='\u{1f77f}' | '\u{1f7d5}'..='\u{1f7ff}'
        | '\u{1f80c}'..='\u{1f80f}' | '\u{1f848}'..='\u{1f84f}' | '\u{1f85a}'..='\u{1f85f}'
        | '\u{1f888}'..='\u{1f88f}' | '\u{1f8ae}'..='\u{1f8ff}' | '\u{1f90c}'..='\u{1faff}'
        | '\u{1fc00}'..='\u{1fffd}')
}

/// Signs of running text that become emoji when [`EMOJI_STYLE`] follows.
pub(super) fn is_sign(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{2199}'
        | '\u{21a9}'..='\u{21aa}' | '\u{24c2}' | '\u{3030}' | '\u{303d}')
}

/// Marks that only change how the character before them looks: variation selectors, the enclosing keycap, tags.
pub(super) fn is_mark(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{20e3}') || is_tag(c)
}

/// Invisible letters that spell the region of a flag.
pub(super) fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0020}'..='\u{e007f}')
}

/// What a zero-width joiner can bind into one picture. `♀`, `♂` and `⚕` are among the emoji.
pub(super) fn is_part_of_sequence(c: char) -> bool {
    c == EMOJI_STYLE || is_emoji(c) || is_sign(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keycaps `0️⃣` … `9️⃣`, `#️⃣` and `*️⃣` are the only emoji of which something stays: the key.
    #[test]
    fn every_emoji_is_made_of_what_goes() {
        let goes = |c: char| is_emoji(c) || is_sign(c) || is_mark(c) || c == '\u{200d}';
        let left: Vec<&str> =
            emojis::iter().map(emojis::Emoji::as_str).filter(|e| !e.chars().all(goes)).collect();
        assert_eq!(left.len(), 12, "{left:?}");
        assert!(left.iter().all(|emoji| emoji.ends_with('\u{20e3}')), "{left:?}");
    }

    #[test]
    fn trap_digits_hash_and_asterisk_are_no_emoji() {
        for c in "0123456789#*abcé½²№→…€".chars() {
            assert!(!is_emoji(c) && !is_sign(c) && !is_mark(c), "{c}");
        }
    }
}
