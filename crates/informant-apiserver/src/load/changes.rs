//! The random sequence of changes of a load.
//!
//! - **In:** the wanted number of objects, the weights of changes, a seed.
//! - **Out:** one [`Change`] after the other.
//! - **Knows nothing of:** the server, time.

use serde_json::Value;

use crate::load::{ChangeMix, templates::Template};

/// The existing and the deleted objects of a load, by number, and the generator of the next change.
#[derive(Debug)]
pub(crate) struct Changes {
    template: Template,
    mix: ChangeMix,
    chance: fastrand::Rng,
    wanted: usize,
    live: Vec<Instance>,
    gone: Vec<usize>,
    /// The lowest number that no object has had yet.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Instance {
    number: usize,
    revision: u64,
}

/// One change of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Put(Value),
    Delete(String),
    /// Delete, then put.
    Replace(String, Value),
}

enum Choice {
    Update,
    Create,
    Delete,
    Recreate,
}

impl Changes {
    pub(crate) fn new(template: Template, wanted: usize, mix: ChangeMix, seed: u64) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        Self { template, mix, chance, wanted, live: Vec::new(), gone: Vec::new(), next: 0 }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    /// Adds the object with this number and returns it.
    pub(crate) fn add(&mut self, number: usize) -> Value {
        self.next = self.next.max(number + 1);
        self.live.push(Instance { number, revision: 0 });
        self.template.object(number, 0)
    }

    pub(crate) fn next(&mut self) -> Change {
        match self.choose() {
            Choice::Create => {
                // Half of the created objects existed before.
                let returns = !self.gone.is_empty() && self.chance.bool();
                let number =
                    if returns { self.gone.swap_remove(self.chance.usize(..self.gone.len())) } else { self.next };
                Change::Put(self.add(number))
            }
            Choice::Delete => {
                let gone = self.live.swap_remove(self.chance.usize(..self.live.len()));
                self.gone.push(gone.number);
                Change::Delete(self.template.key(gone.number))
            }
            Choice::Update => Change::Put(self.revise().1),
            Choice::Recreate => {
                let (key, object) = self.revise();
                Change::Replace(key, object)
            }
        }
    }

    fn choose(&mut self) -> Choice {
        let (live, margin) = (self.live.len(), (self.wanted / 10).max(1));
        let ChangeMix { update, create, delete, recreate } = self.mix;
        let [update, create, delete, recreate] = [update, create, delete, recreate].map(u64::from);
        match self.chance.u64(..(update + create + delete + recreate).max(1)) {
            _ if live == 0 => Choice::Create,
            // At the limits, a drawn create or delete becomes the one that brings the number back towards `wanted`.
            drawn if drawn < create + delete && live <= self.wanted.saturating_sub(margin) => Choice::Create,
            drawn if drawn < create + delete && live >= self.wanted.saturating_add(margin) => Choice::Delete,
            drawn if drawn < create => Choice::Create,
            drawn if drawn < create + delete => Choice::Delete,
            drawn if drawn < create + delete + recreate => Choice::Recreate,
            _ => Choice::Update,
        }
    }

    /// Returns the next revision of a random object, with its key.
    fn revise(&mut self) -> (String, Value) {
        let chosen = self.chance.usize(..self.live.len());
        let instance = &mut self.live[chosen];
        instance.revision += 1;
        (self.template.key(instance.number), self.template.object(instance.number, instance.revision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn changes(seed: u64, mix: ChangeMix) -> Changes {
        let pods = Registry::builtin_kinds().find(|kind| kind.kind == "Pod").unwrap();
        let mut changes = Changes::new(Template::new(&pods, 3, 10), 20, mix, seed);
        for number in 0..20 {
            changes.add(number);
        }
        changes
    }

    #[test]
    fn the_same_seed_makes_the_same_changes() {
        let run = |seed| {
            let mut changes = changes(seed, ChangeMix::default());
            (0..200).map(|_| changes.next()).collect::<Vec<_>>()
        };

        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_number_of_objects_stays_near_what_was_wanted() {
        let mixes = [
            ChangeMix::default(),
            ChangeMix { create: 10, ..ChangeMix::default() },
            ChangeMix { delete: 10, ..ChangeMix::default() },
        ];
        for mix in mixes {
            let mut changes = changes(1, mix);
            let mut creates_and_deletes = 0;
            for _ in 0..10_000 {
                creates_and_deletes += usize::from(match changes.next() {
                    Change::Put(object) => object["metadata"]["annotations"]["load.example.com/revision"] == "0",
                    Change::Delete(_) => true,
                    Change::Replace(..) => false,
                });
                assert!((18..=22).contains(&changes.live()), "{mix:?}: {}", changes.live());
            }
            assert!(creates_and_deletes > 1000, "{mix:?}: only {creates_and_deletes} creates and deletes");
        }
    }

    #[test]
    fn a_mix_of_nothing_but_updates_updates() {
        let mut changes = changes(1, ChangeMix { update: 1, create: 0, delete: 0, recreate: 0 });

        assert!((0..100).all(|_| matches!(changes.next(), Change::Put(_))));
        assert_eq!(changes.live(), 20);
    }
}
