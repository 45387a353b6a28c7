//! The text that a scanner writes: single spaces, none at the ends, and no gap where something was taken out before
//! punctuation.

/// What stands before a word without a space.
const OPENING: [char; 5] = ['“', '«', '‘', '(', '['];

/// Collects characters; white space waits until something follows it.
pub(super) struct Output {
    text: String,
    space: bool,
    /// Whether the waiting space stands for something that was taken out.
    gap: bool,
}

impl Output {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), space: false, gap: false }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Asks for a space before what follows.
    pub(super) fn space(&mut self) {
        self.space = true;
    }

    /// Something was taken out here.
    pub(super) fn gap(&mut self) {
        self.space = true;
        self.gap = true;
    }

    /// Writes `c`; `next` is the character that will follow it.
    pub(super) fn push(&mut self, c: char, next: Option<char>) {
        if c.is_whitespace() {
            self.space = true;
            return;
        }
        if self.space {
            if self.gap && c == ')' && self.text.ends_with('(') {
                self.text.pop(); // "(via <address>)" keeps its brackets, "(<address>)" does not
                self.text.truncate(self.text.trim_end().len());
                return;
            }
            let closes = matches!(c, ',' | '.' | ';' | ':' | '!' | '?' | ')')
                && next.is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '.' | '!' | '?' | ')'));
            // The bracket of "5:(" closes a face, not a gap.
            let opened = self.text.strip_suffix(OPENING).is_some_and(|before| {
                before.chars().next_back().is_none_or(|c| c.is_whitespace() || OPENING.contains(&c))
            });
            if !self.text.is_empty() && !(self.gap && (closes || opened)) {
                self.text.push(' ');
            }
            self.space = false;
            self.gap = false;
        }
        self.text.push(c);
    }

    /// Keeps the first `length` bytes, which must end a character.
    pub(super) fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
    }

    /// Takes out the bracket that opens a link's text and begins at `at`, false where no
    /// bracket stands there.
    pub(super) fn remove_bracket(&mut self, at: usize) -> bool {
        let is_bracket = self.text.get(at..).is_some_and(|from| from.starts_with('['));
        if is_bracket {
            self.text.remove(at);
        }
        is_bracket
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }
}
