//! TF-IDF vectors of short texts, and their cosine.
//!
//! Words are runs of letters and digits in lower case, at least two characters; numbers count by value. The weight of
//! a word is its count times `ln((1 + N) / (1 + n)) + 1` (N texts, n of them with the word: the smoothed form, which
//! stays positive in a request of two texts), and vectors have length 1.

use std::collections::HashMap;

use super::words::{Decimals, folded, number, words};

/// A text's words with their weights, by word number; of length 1, or empty.
pub(super) type Vector = Vec<(u32, f64)>;

/// The vectors of all texts, in their order.
pub(super) fn vectors<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<Vector> {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut holders: Vec<u32> = Vec::new();
    let mut counted: Vec<Vector> = Vec::new();
    for text in texts {
        let mut terms: Vec<u32> = Vec::new();
        for term in terms_of(text) {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            terms.push(*numbers.entry(term).or_insert(next));
        }
        holders.resize(numbers.len(), 0);
        terms.sort_unstable();
        let mut vector: Vector = Vec::with_capacity(terms.len());
        for term in terms {
            match vector.last_mut() {
                Some((last, count)) if *last == term => *count += 1.0,
                _ => {
                    holders[term as usize] += 1;
                    vector.push((term, 1.0));
                }
            }
        }
        counted.push(vector);
    }

    let total = 1.0 + counted.len() as f64;
    for vector in &mut counted {
        for (term, weight) in vector.iter_mut() {
            *weight *= (total / (1.0 + f64::from(holders[*term as usize]))).ln() + 1.0;
        }
        let length = vector.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
        for (_, weight) in vector.iter_mut() {
            *weight /= length;
        }
    }
    counted
}

fn terms_of(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().filter_map(|word| match number(word.text, Decimals::Point) {
        Some((value, "")) => (value.len() > 1).then_some(value),
        _ => Some(folded(word.text)).filter(|word| word.chars().nth(1).is_some()),
    })
}

/// The cosine of two vectors, 0..=1.
pub(super) fn cosine(a: &[(u32, f64)], b: &[(u32, f64)]) -> f64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut sum = 0.0;
    while let (Some(&&(left, x)), Some(&&(right, y))) = (a.peek(), b.peek()) {
        if left == right {
            sum += x * y;
        }
        if left <= right {
            a.next();
        }
        if right <= left {
            b.next();
        }
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_is_the_one_computed_by_hand() {
        let found = vectors(["fire in Vista", "fire fire", "x"].into_iter());
        // N = 3; fire is in 2 texts, "in" and "vista" in 1 each; "x" is too short
        let fire = (4.0_f64 / 3.0).ln() + 1.0;
        let rare = (4.0_f64 / 2.0).ln() + 1.0;
        let expected = fire / (fire * fire + 2.0 * rare * rare).sqrt();
        assert!((cosine(&found[0], &found[1]) - expected).abs() < 1e-12);
        assert!((cosine(&found[0], &found[0]) - 1.0).abs() < 1e-12);
        assert!(found[2].is_empty() && cosine(&found[2], &found[0]).abs() < 1e-12);
    }
}
