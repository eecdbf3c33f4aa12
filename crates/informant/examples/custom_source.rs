//! An informer with a source that is not Kubernetes: the stock of a shop, with the same cache, indexes and handlers.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the example prints its results")]

use std::{process::ExitCode, sync::Arc};

use futures_util::{StreamExt, stream};
use informant::{
    Identity, ResourceVersion,
    error::SourceError,
    pipeline::{
        Item, ListPiece, ListRequest, ListStream, ListWatch, SourceEvent, WatchPiece, WatchRequest, WatchStream,
    },
    prelude::*,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// An object of the source: how many pieces of an article the shop has, and where.
#[derive(Clone, Debug)]
struct Stock {
    count: u32,
    shelf: &'static str,
}

/// One entry of the ledger: an article and its new stock; `None` if the article is sold out.
type Entry = (&'static str, Option<Stock>);

/// A ledger of all changes, in order. The shop is at version n after the n-th entry.
#[derive(Clone, Default)]
struct Shop {
    ledger: Arc<Mutex<Vec<Entry>>>,
    length: watch::Sender<usize>,
}

impl Shop {
    /// Appends a change to the ledger, and returns its version.
    fn record(&self, name: &'static str, stock: Option<Stock>) -> ResourceVersion {
        let mut ledger = self.ledger.lock();
        ledger.push((name, stock));
        self.length.send_replace(ledger.len());
        ResourceVersion::new(ledger.len().to_string())
    }
}

/// Returns the stock of an article at a version, as an item of a list or an event.
fn item(name: &str, version: usize, stock: &Stock) -> Item<Stock> {
    let version = ResourceVersion::new(version.to_string());
    Item::new(Identity { version, ..Identity::of_key(Key::cluster_scoped(name)) }, stock.clone())
}

impl ListWatch<Stock> for Shop {
    /// Returns the articles that are in stock, each at the version of its newest entry.
    async fn list(&self, _: ListRequest) -> Result<ListStream<Stock>, SourceError> {
        let ledger = self.ledger.lock();
        let last = |name: &str| ledger.iter().rposition(|(other, _)| *other == name);
        let newest = ledger.iter().enumerate().filter(|(position, (name, _))| last(name) == Some(*position));
        let in_stock = newest.filter_map(|(position, (name, stock))| Some(item(name, position + 1, stock.as_ref()?)));
        Ok(ListPiece::page(ledger.len().to_string(), in_stock.collect::<Vec<_>>()))
    }

    /// Delivers all changes after the requested version. Any version is available, because the ledger keeps every entry.
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
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error.report()); // with its causes
            ExitCode::FAILURE
        }
    }
}

async fn run() -> informant::Result<()> {
    let shop = Shop::default();
    shop.record("apples", Some(Stock { count: 12, shelf: "fruit" }));
    shop.record("pears", Some(Stock { count: 3, shelf: "fruit" }));

    let stock = SharedInformer::of_decoded_objects(shop.clone()).build();
    let by_shelf = stock.add_index("shelf", |stock| Some(stock.shelf))?;
    let printer = stock
        .subscribe()
        .on_add(|stock, origin| println!("+ {}: {} ({origin:?})", stock.key(), stock.count))
        .on_update(|old, new| println!("~ {}: {} → {}", new.key(), old.count, new.count))
        .on_delete(|stock| println!("- {}", stock.key()))
        .register()?;
    stock.start();
    stock.synced().await?;
    println!("{} articles on the fruit shelf", by_shelf.count("fruit"));

    shop.record("apples", Some(Stock { count: 11, shelf: "fruit" }));
    shop.record("soap", Some(Stock { count: 40, shelf: "household" }));
    let sold_out = shop.record("pears", None);
    // Wait until the handler has received the last change. The cache is written before handlers are called.
    printer.caught_up_to(&sold_out).await?;
    println!(
        "{} articles on the fruit shelf, {} on the household shelf",
        by_shelf.count("fruit"),
        by_shelf.count("household")
    );
    assert_eq!((by_shelf.count("fruit"), by_shelf.count("household")), (1, 1));
    stock.stop().await?;
    Ok(())
}
