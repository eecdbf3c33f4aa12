//! Implements, for the cache, the trait through which a queue and a reflector read cached objects.

use crate::{Cached, Key, known::KnownObjects, store::Lister};

impl<O: Send + Sync> KnownObjects<O> for Lister<O> {
    fn get(&self, key: &Key) -> Option<Cached<O>> {
        Lister::get(self, key)
    }

    fn list(&self) -> Vec<Cached<O>> {
        Lister::list(self)
    }
}
