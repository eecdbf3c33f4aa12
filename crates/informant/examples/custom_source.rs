//! A source that is not Kubernetes: the stock of a shop, behind the same cache, indexes and handlers.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use informant::Cached;
use informant::Key;
use informant::ResourceVersion;
use informant::SharedInformer;
use informant::listwatch::Item;
use informant::listwatch::ListPiece;
use informant::listwatch::ListRequest;
use informant::listwatch::ListStream;
use informant::listwatch::ListWatch;
use informant::listwatch::SourceError;
use informant::listwatch::SourceEvent;
use informant::listwatch::WatchPiece;
use informant::listwatch::WatchRequest;
use informant::listwatch::WatchStream;
use informant::object::Identity;
use parking_lot::Mutex;
use tokio::sync::watch;

/// What a shop has of something.
#[derive(Clone, Debug)]
struct Stock {
    count: u32,
    shelf: &'static str,
}

/// What there is of something now; `None` is sold out.
type Entry = (&'static str, Option<Stock>);

/// All that ever happened in the shop, in order: after the n-th entry it is at version n.
#[derive(Clone, Default)]
struct Shop {
    ledger: Arc<Mutex<Vec<Entry>>>,
    length: watch::Sender<usize>,
}

impl Shop {
    fn note(&self, name: &'static str, stock: Option<Stock>) -> ResourceVersion {
        let mut ledger = self.ledger.lock();
        ledger.push((name, stock));
        self.length.send_replace(ledger.len());
        ResourceVersion::new(ledger.len().to_string())
    }
}

/// An object at a version.
fn item(name: &str, version: usize, stock: &Stock) -> Item<Stock> {
    let version = ResourceVersion::new(version.to_string());
    Item::new(Identity { version, ..Identity::of_key(Key::cluster_scoped(name)) }, stock.clone())
}

impl ListWatch<Stock> for Shop {
    async fn list(&self, _: ListRequest) -> Result<ListStream<Stock>, SourceError> {
        let ledger = self.ledger.lock();
        let last = |name: &str| ledger.iter().rposition(|(other, _)| *other == name);
        let newest = ledger.iter().enumerate().filter(|(position, (name, _))| last(name) == Some(*position));
        let there = newest.filter_map(|(position, (name, stock))| Some(item(name, position + 1, stock.as_ref()?)));
        Ok(ListPiece::page(ledger.len().to_string(), there.collect::<Vec<_>>()))
    }

    /// Goes on from any version, because the ledger forgets nothing.
    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<Stock>, SourceError> {
        let position: usize = request.version.as_str().parse().map_err(SourceError::other)?;
        let (shop, length) = (self.clone(), self.length.subscribe());
        let events = stream::unfold((shop, length, position), |(shop, mut length, position)| async move {
            length.wait_for(|length| *length > position).await.ok()?;
            let (name, stock) = shop.ledger.lock().get(position).cloned()?;
            let event = match &stock {
                Some(stock) => SourceEvent::Modified(item(name, position + 1, stock)),
                None => SourceEvent::Deleted(item(name, position + 1, &Stock { count: 0, shelf: "" })),
            };
            Some((Ok(WatchPiece::Event(event)), (shop, length, position + 1)))
        });
        Ok(events.boxed())
    }

    fn name(&self) -> String {
        "stock".into()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shop = Shop::default();
    shop.note("apples", Some(Stock { count: 12, shelf: "fruit" }));
    shop.note("pears", Some(Stock { count: 3, shelf: "fruit" }));

    let stock = SharedInformer::of_decoded_objects(shop.clone()).build();
    let by_shelf = stock.add_index("shelf", |stock: &Cached<Stock>| Some(stock.shelf))?;
    let printer = stock
        .subscribe()
        .on_add(|stock, origin| println!("+ {}: {} ({origin:?})", stock.key(), stock.count))
        .on_update(|old, new| println!("~ {}: {} → {}", new.key(), old.count, new.count))
        .on_delete(|stock| println!("- {}", stock.key()))
        .register()?;
    stock.start();
    stock.synced().await?;
    println!("{} kinds of fruit", by_shelf.count("fruit"));

    shop.note("apples", Some(Stock { count: 11, shelf: "fruit" }));
    shop.note("soap", Some(Stock { count: 40, shelf: "household" }));
    let sold_out = shop.note("pears", None);
    stock.caught_up_to(&sold_out, Duration::from_secs(10)).await?;
    while printer.backlog() > 0 {
        tokio::task::yield_now().await;
    }
    println!("{} kinds of fruit, {} of household", by_shelf.count("fruit"), by_shelf.count("household"));
    assert_eq!((by_shelf.count("fruit"), by_shelf.count("household")), (1, 1));
    stock.stop().await?;
    Ok(())
}
