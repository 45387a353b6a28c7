//! Which prompts run together: those of like length, within a budget of tokens, in few shapes.

use std::cmp::Reverse;

/// The lengths that batches have; ONNX Runtime plans its memory for each shape. Longer ones go up in steps of the last.
const LENGTHS: [usize; 14] = [16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384];
const STEP: usize = 128;
/// The sizes that batches have, whatever the budget would allow.
const MOST: usize = 64;

/// Prompts that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// Which ones, by their place.
    pub(super) members: Vec<usize>,
    /// To how many tokens each is padded.
    pub(super) length: usize,
}

/// Puts prompts of these lengths in batches, the longest first, so that what does not fit in memory is known early. Each
/// is in one batch. None is padded to more than `longest`, what the model has places for.
pub(super) fn batches(lengths: &[usize], budget: usize, longest: usize) -> Vec<Batch> {
    let mut longest_first: Vec<(usize, usize)> = lengths.iter().copied().enumerate().collect();
    longest_first.sort_by_key(|&(_, length)| Reverse(length));
    let mut batches: Vec<Batch> = Vec::new();
    for (place, length) in longest_first {
        let length = padded(length).min(longest.max(length));
        match batches.last_mut() {
            Some(batch) if has_room(batch, length, budget) => batch.members.push(place),
            _ => batches.push(Batch { members: vec![place], length }),
        }
    }
    batches
}

/// Whether one more of this length belongs in the batch: it fits the budget, and is padded little.
fn has_room(batch: &Batch, length: usize, budget: usize) -> bool {
    let members = batch.members.len() + 1;
    members <= MOST && members * batch.length <= budget && (length == batch.length || is_small(batch))
}

/// A batch of few is worth some padding more than a batch of its own for what comes next.
fn is_small(batch: &Batch) -> bool {
    batch.members.len() < 4
}

fn padded(length: usize) -> usize {
    LENGTHS.into_iter().find(|&bound| length <= bound).unwrap_or_else(|| length.div_ceil(STEP) * STEP)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_prompt_is_in_one_batch_that_holds_it(
            lengths in prop::collection::vec(0..700_usize, 0..300),
            budget in 16..5_000_usize,
            longest in 16..1_000_usize,
        ) {
            let lengths: Vec<usize> = lengths.into_iter().map(|length| length.min(longest)).collect();
            let batches = batches(&lengths, budget, longest);
            let mut seen: Vec<usize> = batches.iter().flat_map(|batch| batch.members.clone()).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                prop_assert!(batch.members.iter().all(|&place| lengths[place] <= batch.length));
                prop_assert!(batch.members.len() == 1 || batch.members.len() * batch.length <= budget);
                prop_assert!(batch.members.len() <= MOST);
                prop_assert!(batch.length <= longest);
            }
        }
    }

    #[test]
    fn like_lengths_run_together_with_little_padding() {
        let lengths: Vec<usize> = (20..80).cycle().take(250).collect();
        let batches = batches(&lengths, 2_048, 512);
        let padded: usize = batches.iter().map(|batch| batch.members.len() * batch.length).sum();
        let tokens: usize = lengths.iter().sum();
        assert!(padded * 100 < tokens * 118, "{padded} for {tokens}");
        assert!(batches.len() < 16, "{}", batches.len());
    }
}
