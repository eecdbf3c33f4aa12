//! Which change comes next, by chance.

use serde_json::Value;

use crate::load::Mix;
use crate::load::templates::Template;

/// The objects that are there and those that are not, by their numbers.
#[derive(Debug)]
pub(crate) struct Changes {
    template: Template,
    mix: Mix,
    chance: fastrand::Rng,
    wanted: usize,
    live: Vec<Instance>,
    gone: Vec<usize>,
    /// The number that no object had yet.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Instance {
    number: usize,
    revision: u64,
}

/// Something to do to the server.
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
    pub(crate) fn new(template: Template, wanted: usize, mix: Mix, seed: u64) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        Self { template, mix, chance, wanted, live: Vec::new(), gone: Vec::new(), next: 0 }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    /// The object with this number, which is there from now on.
    pub(crate) fn add(&mut self, number: usize) -> Value {
        self.next = self.next.max(number + 1);
        self.live.push(Instance { number, revision: 0 });
        self.template.object(number, 0)
    }

    pub(crate) fn next(&mut self) -> Change {
        match self.choose() {
            Choice::Create => {
                // Half of those that come were there before.
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
        let Mix { update, create, delete, recreate } = self.mix;
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

    /// Some object, one revision on.
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

    fn changes(seed: u64, mix: Mix) -> Changes {
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
            let mut changes = changes(seed, Mix::default());
            (0..200).map(|_| changes.next()).collect::<Vec<_>>()
        };

        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn the_number_of_objects_stays_near_what_was_wanted() {
        let mixes = [Mix::default(), Mix { create: 10, ..Mix::default() }, Mix { delete: 10, ..Mix::default() }];
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
            assert!(creates_and_deletes > 1000, "{mix:?}: objects come and go, {creates_and_deletes} times");
        }
    }

    #[test]
    fn a_mix_of_nothing_but_updates_updates() {
        let mut changes = changes(1, Mix { update: 1, create: 0, delete: 0, recreate: 0 });

        assert!((0..100).all(|_| matches!(changes.next(), Change::Put(_))));
        assert_eq!(changes.live(), 20);
    }
}
