//! The traps and laws of cleaning as a whole.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// Real data for tests that use it; may be absent.
pub(super) fn data_folder() -> PathBuf {
    std::env::var_os("NUGGETD_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from)
}

fn cleaner() -> &'static Cleaner {
    static CLEANER: std::sync::OnceLock<Cleaner> = std::sync::OnceLock::new();
    CLEANER.get_or_init(Cleaner::new)
}

fn tweet(text: &str) -> String {
    cleaner().clean(text, &SourceType::Twitter, Some(Language::English), Language::English).text
}

#[track_caller]
fn check(pairs: &[(&str, &str)]) {
    for (text, clean) in pairs {
        assert_eq!(tweet(text), *clean, "{text}");
    }
}

#[test]
fn retweet_prefixes_go() {
    check(&[
        ("RT @a_b: Bridge closed", "Bridge closed"),
        ("RT @a: RT @b: Bridge closed", "Bridge closed"),
        ("RT RT @a Bridge closed", "Bridge closed"),
        ("Oh no RT @a: Bridge closed", "Oh no Bridge closed"),
        ("Oh no RT“@a: Bridge closed”", "Oh no “Bridge closed”"),
        ("rt @a: Bridge closed", "Bridge closed"),
        ("MT @a: Bridge closed", "Bridge closed"),
        ("RT: Bridge closed", "Bridge closed"),
        ("RT@a: Bridge closed", "Bridge closed"),
        ("Please RT", "Please RT"),
        ("RT", ""),
        ("RT @a", ""),
    ]);
}

#[test]
fn trap_a_retweet_prefix_does_not_eat_the_word_after_it() {
    check(&[
        ("RT @a: Tornado warning", "Tornado warning"),
        ("RT Tornado warning", "Tornado warning"),
        ("ART @a show", "ART show"),
        ("RTs are welcome", "RTs are welcome"),
        ("Rt 66 closed", "Rt 66 closed"),
        ("Tornado", "Tornado"),
    ]);
}

#[test]
fn mentions_go_and_addresses_of_mail_stay() {
    check(&[
        ("Thanks @fire_dept for help", "Thanks for help"),
        (".@mayor: stay inside", "stay inside"),
        ("Says @mayor, now", "Says, now"),
        ("@mayor's office, ＠mayor", "office,"),
        ("write to help@example.org or a.b@example.org", "write to help@example.org or a.b@example.org"),
        ("Meet @ 5pm", "Meet @ 5pm"),
        ("@a/list-1 x", "-1 x"),
        ("ayuda@user", "ayuda@user"),
        ("@a @b @c", ""),
    ]);
}

#[test]
fn emoticons_go_and_times_stay() {
    check(&[
        ("All safe :-) so far", "All safe so far"),
        ("Sad :( day <3", "Sad day"),
        ("xD :D ;) =)", ""),
        ("at 10:30 and 3:00 (at 8) too", "at 10:30 and 3:00 (at 8) too"),
        ("ratio 3:D", "ratio 3:D"),
    ]);
}

#[test]
fn trap_what_goes_leaves_a_gap_behind_a_face_that_stays() {
    check(&[
        ("5:( XD homes", "5:( homes"),
        ("5:( XD N95", "5:( N95"),
        ("5:(🔥homes", "5:( homes"),
        ("level 5:(@mayor homes", "level 5:( homes"),
        ("5=[ http://t.co/x homes", "5=[ homes"),
        ("fire (🔥homes) “🔥homes” ((🔥homes))", "fire (homes) “homes” ((homes))"),
    ]);
}

#[test]
fn trap_emoji_go_and_digits_hash_and_asterisk_stay() {
    check(&[
        ("Fire 🔥🔥 near 🏠", "Fire near"),
        ("🇨🇷 Help 👩🏽‍🚒 ❤️ now ☀", "Help now"),
        ("Call 9️⃣1️⃣1️⃣", "Call 911"),
        ("5 * 3 is 15, C# too", "5 * 3 is 15, C# too"),
        ("safe👍safe", "safe safe"),
        ("© ™ 5° ½ №", "© ™ 5° ½ №"),
        ("©️ ↗️ up", "up"),
    ]);
}

#[test]
fn addresses_go_cut_ones_too() {
    check(&[
        ("Map: http://t.co/Ab1 and t.co/x pic.twitter.com/y", "Map: and"),
        ("See http://t.co/Ab1.", "See."),
        ("See (http://t.co/Ab1) now", "See now"),
        ("Bridge closed http://t…", "Bridge closed"),
        ("Bridge closed https:/…", "Bridge closed"),
        ("Bridge closed htt…", "Bridge closed"),
        ("Bridge closed http:", "Bridge closed"),
        ("Bridge closed &amp; htt ...", "Bridge closed"),
        ("Bridge closed: http://t. ...", "Bridge closed:"),
        ("Bridge closed t.co", "Bridge closed"),
        ("Bridge closed... http://t.co/x", "Bridge closed"),
        ("fire...http://t.co/x more", "fire... more"),
        ("Water or and/or food 24/7", "Water or and/or food 24/7"),
    ]);
}

#[test]
fn hashtags_are_split_by_position() {
    check(&[
        ("#bigflood in #CostaRica", "big flood in costa rica"),
        ("#Storm_2013", "storm 2013"),
        ("＃bigflood", "big flood"),
        ("#bigflood#bigfire", "big flood big fire"),
        ("help#bigflood", "help big flood"),
        ("#bigflood's end", "big flood's end"),
        ("# ## #", ""),
        ("##bigflood", "big flood"),
        ("#1 and #27.5", "1 and 27.5"),
        ("#Überschwemmung #метеорит", "Überschwemmung метеорит"),
    ]);
}

#[test]
fn trap_a_hashtag_inside_a_longer_one_is_not_touched() {
    check(&[
        ("#fire #firefighter #fire", "fire firefighter fire"),
        ("#firefighter #fire #firefighters", "firefighter fire firefighters"),
    ]);
}

#[test]
fn other_languages_keep_their_tags_whole() {
    let clean = |text| cleaner().clean(text, &SourceType::Twitter, None, Language::English);
    let spanish = clean("El agua no llega a los vecinos #TerremotoHoy #Zona_7");
    assert_eq!(spanish.language, Language::Spanish);
    assert_eq!(spanish.text, "El agua no llega a los vecinos TerremotoHoy Zona_7");
    let stated = cleaner().clean("#bigflood", &SourceType::Twitter, Some(Language::Other), Language::English);
    assert_eq!((stated.text.as_str(), stated.language), ("bigflood", Language::Other));
}

#[test]
fn trap_numbers_keep_their_separators() {
    check(&[
        ("27.5 C and 3,300 homes, -5 at 6:15", "27.5 C and 3,300 homes, -5 at 6:15"),
        (".5 inches", ".5 inches"),
        ("RT @a: -5 degrees", "-5 degrees"),
    ]);
}

#[test]
fn trap_letters_of_every_script_stay() {
    for text in [
        "Añez dice que está en São Paulo",
        "Сильное землетрясение",
        "東京で地震",
        "می\u{200c}خواهم",
        "தமிழ் மழை",
    ] {
        assert_eq!(tweet(text), text);
    }
}

#[test]
fn trap_entities_encoded_twice() {
    check(&[
        ("Fire &amp;amp; smoke &amp;gt; I &amp;lt;3 you", "Fire & smoke > I you"),
        ("a&nbsp;&nbsp;b", "a b"),
    ]);
}

#[test]
fn trap_a_byte_order_mark_inside_the_text() {
    check(&[("\u{feff}Bridge\u{feff} closed\u{200b}", "Bridge closed")]);
}

#[test]
fn trap_a_cut_tweet_keeps_its_words() {
    check(&[
        (
            "RT @river: 120 people have left their homes so far. The shelter at the hall, 15 Ferry Hill, takes people in, with room for 12…",
            "120 people have left their homes so far. The shelter at the hall, 15 Ferry Hill, takes people in, with room for",
        ),
        ("Gauge at 12…", "Gauge at 12"),
        ("Bridge closed near the sta…", "Bridge closed near the sta"),
        ("Bridge closed \u{fffd}", "Bridge closed"),
        ("Bridge closed \u{fffd}… http://t…", "Bridge closed"),
        ("Bridge closed - http://t.co/x", "Bridge closed"),
        ("Bridge closed &amp; ...", "Bridge closed"),
        ("Bridge closed &amp ...", "Bridge closed"),
    ]);
}

#[test]
fn what_a_prefix_leaves_at_the_start_goes() {
    check(&[
        ("@a : text", "text"),
        (": text", "text"),
        ("“@a: text”", "“text”"),
        ("…text", "…text"),
        ("... text", "text"),
    ]);
}

#[test]
fn other_platforms_keep_what_people_wrote() {
    let reddit = cleaner().clean(
        "See [the map](https://example.org/m) 🔥 #bigflood @x\n\nAdvertisement\nRT @y: it &amp;amp; that",
        &SourceType::Reddit,
        None,
        Language::English,
    );
    assert_eq!(reddit.text, "See the map 🔥 #bigflood @x RT @y: it & that");
    let news = cleaner().clean("Sign up for our newsletter", &SourceType::News, None, Language::French);
    assert_eq!((news.text.as_str(), news.language), ("", Language::French));
}

/// What is hard to read apart.
#[rustfmt::skip]
const TRICKY: &[&str] = &[
    "RT", "RT ", "rt @a", "@bob", "@bob:", "＠x", "@", "#", "##", "＃", "#bigflood", "#fire", "#fire_1",
    "#27.5", "#été", "_", "'s", "fire", "a", "B", "T", "é", "e\u{301}", "\u{301}", "ш", "水", "م",
    "\u{200c}", "\u{200d}", "\u{200b}", "\u{fe0f}", "\u{20e3}", "1", "27.5", "3,300", "8", ":", ":)",
    ":-)", ":(", ":D", ":/", ";", "<3", "xD", "(", ")", "()", "[", "]", "[a](", "](http://x.y/z)",
    "http://t.co/x", "https://", "http:/", "http", "htt…", "t.co/x", "www.a.b", "/", "//", "…", "...",
    ".", ",", "-", "–", "|", "\"", "“", "”", "&", "amp;", "&amp;", "&lt;", "&#39;", "&#8203;", "&#35;",
    "&#64;", "&semi;", "\u{37e}", "🔥", "👩🏽‍🚒", "🇨🇷", "❤️", "©", "©️", "️⃣", "\u{fffd}", "\u{feff}",
    "\u{e000}", "\u{e0041}", " ", "  ", "\n", "\t", "\u{a0}", "\u{85}", "advertisement", "read more",
    "\nshare\n", "^_^", "-_-", "\\o/", "C#", "MT", "5:(", "XD", "=[", "“", "N95", "!", "?", "*", "~", "•",
];

/// Texts put together from it.
fn tricky() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TRICKY), 0..14).prop_map(|pieces| pieces.concat())
}

fn platform() -> impl Strategy<Value = SourceType> {
    prop::sample::select(vec![SourceType::Twitter, SourceType::Reddit, SourceType::News])
}

fn language() -> impl Strategy<Value = Option<Language>> {
    prop::sample::select(vec![None, Some(Language::English), Some(Language::Spanish)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn cleaning_twice_is_cleaning_once_for_tricky_texts(
        text in tricky(), source in platform(), first in language(), second in language(),
    ) {
        let once = cleaner().clean(&text, &source, first, Language::English);
        let twice = cleaner().clean(&once.text, &source, second, Language::English);
        prop_assert_eq!(&twice.text, &once.text);
    }

    #[test]
    fn cleaning_twice_is_cleaning_once_for_any_text(
        text in "\\PC{0,40}|(?s:.{0,40})", source in platform(), first in language(), second in language(),
    ) {
        let once = cleaner().clean(&text, &source, first, Language::English);
        let twice = cleaner().clean(&once.text, &source, second, Language::English);
        prop_assert_eq!(&twice.text, &once.text);
    }

    #[test]
    fn words_and_numbers_survive(words in prop::collection::vec("[a-z]{2,9}|[0-9]{1,3}[.,][0-9]{1,3}|[а-я]{2,6}", 1..9)) {
        prop_assume!(!words.iter().any(|word| matches!(word.as_str(), "http" | "https" | "rt" | "mt")));
        let text = words.join(" ");
        prop_assert_eq!(tweet(&text), text);
    }
}
