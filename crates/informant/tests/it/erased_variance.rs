//! Handles of a subtype that become handles of a supertype. They compile, and their objects cannot be read.
//!
//! A type with a higher-ranked lifetime is a subtype of those with a fixed one, and has another `TypeId`. Types that hold objects must be
//! invariant in `O`, so that none of this compiles; `Cached` has the same as doctests that must not compile. Then this file can go.

use informant::Cached;
use informant::Identity;
use informant::Key;
use informant::SharedInformer;
use informant::listwatch::Item;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::store::IndexFunction;
use informant::store::Indexer;
use informant::store::Lister;

fn identity(name: &str, version: u64) -> Identity {
    Identity { key: Key::cluster(name), uid: "u".into(), version: version.to_string().as_str().into() }
}

type General = for<'a> fn(&'a u8) -> u8;
type Special = fn(&'static u8) -> u8;

fn read(number: &u8) -> u8 {
    *number
}

/// INV-C2: what the compiler takes for a `Cached<O>` can be read as an `O`.
#[test]
fn a_handle_that_became_one_of_a_supertype_can_be_read() {
    let general: Cached<General> = Cached::new(identity("x", 1), read as General);

    let special: Cached<Special> = general;

    assert_eq!((*special)(&7), 7);
}

/// INV-C2
#[test]
fn an_indexer_that_became_one_of_a_supertype_can_be_written_and_read() {
    let indexer: Indexer<General> = Indexer::new();
    let lister: Lister<General> = indexer.lister();
    let indexer: Indexer<Special> = indexer;

    indexer.upsert(Cached::new(identity("x", 1), read as Special));

    assert_eq!((*lister.list()[0])(&7), 7);
}

/// INV-I1
#[tokio::test]
async fn an_informer_that_became_one_of_a_supertype_transforms_its_objects() {
    let source = ScriptedSource::<General>::new();
    source.on_list(ScriptedList::at("1").object(Item::new(identity("x", 1), read as General)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let informer: SharedInformer<General> = SharedInformer::of_ready_objects(source).build();
    let special: SharedInformer<Special> = informer.clone();
    special.set_transform(|_: &mut Special| Ok::<_, std::io::Error>(())).unwrap();

    informer.start();
    informer.synced().await.unwrap();

    assert_eq!((informer.lister().len(), informer.quarantined().len()), (1, 0));
}

/// INV-C2, in the other direction: what takes objects.
#[test]
fn an_index_function_that_became_one_of_a_subtype_can_read_the_objects() {
    let special = IndexFunction::<Special>::new("number", |object: &Cached<Special>| Some(object(&7)));
    let general: IndexFunction<General> = special;
    let indexer: Indexer<General> = Indexer::new();
    indexer.upsert(Cached::new(identity("x", 1), read as General));

    let panics = indexer.add_indexes([general]).unwrap();

    assert_eq!(panics, []);
}
