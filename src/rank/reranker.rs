//! A model at work: one thread owns it, a channel brings it prompts, each caller waits for its own answer.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use lru::LruCache;
use tokio::sync::oneshot;
use xxhash_rust::xxh3::Xxh3;

use super::{
    Pair, RerankConfig, RerankError, Scorer,
    batches::batches,
    folder::ModelFolder,
    graph::{Graph, Rows},
    library,
    prompt::{Prompt, Prompts},
};
use crate::telemetry::Metrics;

/// A loaded model. Dropped, its thread ends after the batch under way.
pub struct Reranker {
    name: String,
    fingerprint: u64,
    top: usize,
    prompts: Prompts,
    /// Scores by a hash of query and text.
    remembered: Option<Mutex<LruCache<u128, f64>>>,
    jobs: Mutex<Option<Sender<Job>>>,
    stopping: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    prompts: Vec<Prompt>,
    answer: oneshot::Sender<Result<Vec<f64>, RerankError>>,
}

impl Reranker {
    /// Loads the configured model and runs it once. Errors name the file and say what to do.
    pub fn open(config: &RerankConfig, metrics: Arc<Metrics>) -> Result<Self, RerankError> {
        let folder = ModelFolder::read(config)?;
        let prompts = Prompts::open(&folder)?;
        let pieces = match &folder.template {
            Some(_) => {
                let [relevant, other] = &folder.pieces;
                [prompts.piece(&folder, relevant)?, prompts.piece(&folder, other)?]
            }
            None => [0, 0],
        };
        let environment = library::environment(config)?;
        let mut graph = Graph::open(&folder, &environment, config, pieces)?;
        let pad = i64::from(prompts.pad(&folder));
        try_out(&folder, &prompts, &mut graph, pad)?;

        let (jobs, received) = mpsc::channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let mut model = Model {
            run: Box::new(move |rows| graph.run(rows)),
            pad,
            budget: config.batch_tokens,
            longest: folder.longest,
            stopping: Arc::clone(&stopping),
            metrics: Arc::clone(&metrics),
        };
        let thread = thread::Builder::new()
            .name("rerank".to_owned())
            .spawn(move || model.serve(&received))
            .map_err(|error| RerankError::Failed(format!("no thread for the model: {error}")))?;
        Ok(Self {
            fingerprint: folder.fingerprint()?,
            name: folder.name,
            top: config.top,
            prompts,
            remembered: NonZeroUsize::new(config.cache).map(|most| Mutex::new(LruCache::new(most))),
            jobs: Mutex::new(Some(jobs)),
            stopping,
            metrics,
            thread: Some(thread),
        })
    }

    /// Loads the configured model, where there is one.
    pub fn configured(
        config: &RerankConfig,
        metrics: &Arc<Metrics>,
    ) -> Result<Option<Arc<Self>>, RerankError> {
        if !config.has_model() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Self::open(config, Arc::clone(metrics))?)))
    }

    /// A hash of the model's files, which tells whether two runs have the same model.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Ends what is under way after the batch that runs; whoever waits gets [`RerankError::Cancelled`], then and later.
    pub fn cancel(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What is remembered of the texts, and the places of those that are not.
    fn recall(&self, keys: &[u128]) -> (Vec<f64>, Vec<usize>) {
        let mut scores = vec![0.0; keys.len()];
        let Some(remembered) = &self.remembered else { return (scores, (0..keys.len()).collect()) };
        let mut remembered = remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        for (place, (key, score)) in keys.iter().zip(&mut scores).enumerate() {
            match remembered.get(key) {
                Some(&known) => *score = known,
                None => missing.push(place),
            }
        }
        (scores, missing)
    }

    fn remember(&self, scored: impl Iterator<Item = (u128, f64)>) {
        let Some(remembered) = &self.remembered else { return };
        let mut remembered = remembered.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, score) in scored {
            remembered.put(key, score);
        }
    }

    fn ask(&self, prompts: Vec<Prompt>) -> Result<Vec<f64>, RerankError> {
        let (answer, answered) = oneshot::channel();
        let ended = || RerankError::Failed("its thread ended early".to_owned());
        {
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let jobs = jobs.as_ref().ok_or_else(ended)?;
            jobs.send(Job { prompts, answer }).map_err(|_| ended())?;
        }
        answered.blocking_recv().map_err(|_| ended())?
    }
}

impl Scorer for Reranker {
    fn score(&self, pairs: &[Pair<'_>]) -> Result<Vec<f64>, RerankError> {
        let keys: Vec<u128> = pairs.iter().map(pair_key).collect();
        let (mut scores, missing) = self.recall(&keys);
        self.metrics.rerank_remembered((keys.len() - missing.len()) as u64);
        if missing.is_empty() {
            return Ok(scores);
        }
        let prompts = missing
            .iter()
            .filter_map(|&place| pairs.get(place))
            .map(|pair| self.prompts.prompt(pair.query, pair.text))
            .collect::<Result<Vec<Prompt>, _>>()
            .map_err(|error| RerankError::Failed(format!("a text cannot be put into tokens: {error}")))?;
        let computed = self.ask(prompts)?;
        for (&place, &score) in missing.iter().zip(&computed) {
            if let Some(slot) = scores.get_mut(place) {
                *slot = score;
            }
        }
        self.remember(
            missing.iter().zip(computed).filter_map(|(&place, score)| Some((*keys.get(place)?, score))),
        );
        Ok(scores)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn top(&self) -> usize {
        self.top
    }
}

impl Drop for Reranker {
    fn drop(&mut self) {
        self.cancel();
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so on stderr
            thread.join().unwrap_or_default();
        }
    }
}

/// Two prompts of different lengths must give numbers, together as each alone.
fn try_out(folder: &ModelFolder, prompts: &Prompts, graph: &mut Graph, pad: i64) -> Result<(), RerankError> {
    let fail = |reason: String| RerankError::model(folder.graph(), reason);
    let made = ["Roads are closed.", "The fire has burned 4,100 acres and is not contained, officials said."]
        .map(|text| prompts.prompt("Which areas are closed?", text));
    let mut tried = Vec::new();
    for prompt in made {
        tried.push(prompt.map_err(|error| fail(format!("has a tokenizer that fails: {error}")))?);
    }
    let members: Vec<&Prompt> = tried.iter().collect();
    let longest = tried.iter().map(|prompt| prompt.ids.len()).max().unwrap_or_default();
    let together =
        graph.run(&rows(&members, longest, pad)).map_err(|error| fail(format!("cannot be run: {error}")))?;
    for (prompt, score) in tried.iter().zip(together) {
        let alone = graph
            .run(&rows(&[prompt], prompt.ids.len(), pad))
            .map_err(|error| fail(format!("cannot be run: {error}")))?;
        // Quantised models are less exact; one that ignores the mask is off by far more
        if alone.first().is_none_or(|alone| (alone - score).abs() > 0.5) {
            return Err(fail(format!("scores a text {alone:?} alone and {score} beside a longer one")));
        }
    }
    Ok(())
}

fn pair_key(pair: &Pair<'_>) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&(pair.query.len() as u64).to_le_bytes());
    hash.update(pair.query.as_bytes());
    hash.update(pair.text.as_bytes());
    hash.digest128()
}

/// Pads prompts on their right.
fn rows(prompts: &[&Prompt], length: usize, pad: i64) -> Rows {
    let size = prompts.len() * length;
    let mut rows = Rows {
        count: prompts.len(),
        length,
        ids: Vec::with_capacity(size),
        mask: Vec::with_capacity(size),
        types: Vec::with_capacity(size),
    };
    for (row, prompt) in (1..).zip(prompts) {
        rows.ids.extend(prompt.ids.iter().map(|&id| i64::from(id)));
        rows.types.extend(prompt.types.iter().map(|&kind| i64::from(kind)));
        rows.mask.resize(rows.ids.len(), 1);
        rows.ids.resize(row * length, pad);
        rows.types.resize(row * length, 0);
        rows.mask.resize(row * length, 0);
    }
    rows
}

type Run = Box<dyn FnMut(&Rows) -> Result<Vec<f64>, String> + Send>;

/// What the thread owns.
struct Model {
    run: Run,
    pad: i64,
    budget: usize,
    /// Most tokens that it has places for.
    longest: usize,
    stopping: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
}

impl Model {
    fn serve(&mut self, jobs: &Receiver<Job>) {
        while let Ok(Job { prompts, answer }) = jobs.recv() {
            let scores = self.score(&prompts, &answer);
            if matches!(scores, Err(RerankError::Failed(_))) {
                self.metrics.rerank_failed();
            }
            // Whoever asked may be gone
            answer.send(scores).unwrap_or_default();
        }
    }

    fn score(
        &mut self,
        prompts: &[Prompt],
        answer: &oneshot::Sender<Result<Vec<f64>, RerankError>>,
    ) -> Result<Vec<f64>, RerankError> {
        let lengths: Vec<usize> = prompts.iter().map(|prompt| prompt.ids.len()).collect();
        let mut scores = vec![0.0; prompts.len()];
        for batch in batches(&lengths, self.budget, self.longest) {
            if self.stopping.load(Ordering::Relaxed) || answer.is_closed() {
                return Err(RerankError::Cancelled);
            }
            let members: Vec<&Prompt> =
                batch.members.iter().filter_map(|&place| prompts.get(place)).collect();
            let rows = rows(&members, batch.length, self.pad);
            let of_batch = self.run_twice(&rows)?;
            for (&place, score) in batch.members.iter().zip(of_batch) {
                if let Some(slot) = scores.get_mut(place) {
                    *slot = score;
                }
            }
        }
        Ok(scores)
    }

    /// Runs a batch, and where that fails once more.
    fn run_twice(&mut self, rows: &Rows) -> Result<Vec<f64>, RerankError> {
        let began = Instant::now();
        let scores = match (self.run)(rows) {
            Ok(scores) => scores,
            Err(reason) => {
                tracing::warn!(reason, texts = rows.count, "a batch of the reranker failed, trying again");
                (self.run)(rows).map_err(RerankError::Failed)?
            }
        };
        let tokens = rows.mask.iter().filter(|&&mask| mask == 1).count();
        let padding = rows.mask.len() - tokens;
        self.metrics.rerank_batch(rows.count as u64, tokens as u64, padding as u64, began.elapsed());
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn prompt(length: usize) -> Prompt {
        Prompt { ids: vec![7; length], types: vec![0; length] }
    }

    fn model(run: impl FnMut(&Rows) -> Result<Vec<f64>, String> + Send + 'static) -> Model {
        Model {
            run: Box::new(run),
            pad: 0,
            budget: 64,
            longest: 512,
            stopping: Arc::default(),
            metrics: Arc::new(Metrics::new().unwrap()),
        }
    }

    /// The number of each row's tokens.
    fn tokens(rows: &Rows) -> Vec<f64> {
        rows.mask.chunks(rows.length).map(|row| row.iter().sum::<i64>() as f64).collect()
    }

    type Answered = Result<Vec<f64>, RerankError>;

    fn answer() -> (oneshot::Sender<Answered>, oneshot::Receiver<Answered>) {
        oneshot::channel()
    }

    #[test]
    fn scores_come_in_the_order_of_the_texts() {
        let lengths = [30, 4, 17, 60, 4, 200, 1];
        let prompts = lengths.map(prompt);
        let (sender, _receiver) = answer();
        let scores = model(|rows| Ok(tokens(rows))).score(&prompts, &sender).unwrap();
        assert_eq!(scores, lengths.map(|length| length as f64));
    }

    #[test]
    fn a_batch_that_fails_is_tried_once_more() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let (sender, _receiver) = answer();
        let mut flaky = model(move |rows| match counted.fetch_add(1, Ordering::Relaxed) {
            0 => Err("out of memory".to_owned()),
            _ => Ok(tokens(rows)),
        });
        assert_eq!(flaky.score(&[prompt(3)], &sender).unwrap(), [3.0]);
        let counted = Arc::clone(&calls);
        let mut broken = model(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Err("out of memory".to_owned())
        });
        let failed = broken.score(&[prompt(3)], &sender);
        assert!(matches!(failed, Err(RerankError::Failed(reason)) if reason == "out of memory"));
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn told_to_stop_it_ends_after_the_batch_that_runs() {
        let stopping: Arc<AtomicBool> = Arc::default();
        let told = Arc::clone(&stopping);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let mut model = model(move |rows| {
            counted.fetch_add(1, Ordering::Relaxed);
            told.store(true, Ordering::Relaxed);
            Ok(tokens(rows))
        });
        model.stopping = stopping;
        let (sender, _receiver) = answer();
        let stopped = model.score(&[prompt(60), prompt(60), prompt(60)], &sender);
        assert!(matches!(stopped, Err(RerankError::Cancelled)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_nobody_waits_for_is_not_run() {
        let (sender, receiver) = answer();
        drop(receiver);
        let stopped = model(|_| Err("run".to_owned())).score(&[prompt(3)], &sender);
        assert!(matches!(stopped, Err(RerankError::Cancelled)));
    }

    #[test]
    fn padding_is_on_the_right_and_masked() {
        let pair = Prompt { ids: vec![5, 6], types: vec![0, 1] };
        let rows = rows(&[&pair, &prompt(3)], 4, 9);
        assert_eq!(rows.ids, [5, 6, 9, 9, 7, 7, 7, 9]);
        assert_eq!(rows.mask, [1, 1, 0, 0, 1, 1, 1, 0]);
        assert_eq!(rows.types, [0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_query_and_a_text_are_told_apart() {
        let key = |query, text| pair_key(&Pair { query, text });
        assert_ne!(key("ab", "c"), key("a", "bc"));
        assert_ne!(key("", "x"), key("x", ""));
    }
}
