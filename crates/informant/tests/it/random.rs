//! Property tests that can be repeated: each run has a seed, and a failure prints it.

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

/// Runs `test` on this many random values.
///
/// `INFORMANT_SEED` repeats a run, `INFORMANT_CASES` multiplies the number of cases.
///
/// # Panics
///
/// If the test panics on a value. The message has the smallest failing value and the seed.
pub fn check<S: Strategy>(cases: u32, values: S, test: impl Fn(S::Value)) {
    let seed = number("INFORMANT_SEED").unwrap_or_else(rand_seed);
    let cases = cases * u32::try_from(number("INFORMANT_CASES").unwrap_or(1)).expect("a small number");

    let run = runner(cases, seed).run(&values, |value| {
        test(value);
        Ok(())
    });

    match run {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => {
            panic!("{reason}\nsmallest failing value: {value:#?}\nrepeat with INFORMANT_SEED={seed}")
        }
        Err(TestError::Abort(reason)) => panic!("{reason}\nrepeat with INFORMANT_SEED={seed}"),
    }
}

/// Returns one random value and its seed, for tests that are too slow to run on many values.
#[allow(dead_code, reason = "not every crate that includes this file uses it")]
pub fn one<S: Strategy>(values: &S) -> (S::Value, u64) {
    let seed = number("INFORMANT_SEED").unwrap_or_else(rand_seed);
    let tree = values.new_tree(&mut runner(1, seed)).expect("a value");
    (tree.current(), seed)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn runner(cases: u32, seed: u64) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn rand_seed() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}
