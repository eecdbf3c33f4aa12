//! Callbacks that wait for each other's end: the call that would complete a circle is an error.

use std::sync::{Arc, Mutex, OnceLock};

use informant::{Registration, SharedInformer, SharedInformerFactory, error::StopError, factory::InformerState};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use tokio::sync::Barrier;

use crate::support::{
    informers::{Leaks, informer_with, many_threads, open_watch, source, wait_until, without_deadlock},
    poll_once,
    servers::{SECOND, factory, server},
};

fn named(name: &str) -> SharedInformer<()> {
    informer_with(&source("10", &[("a", 1)], open_watch()), |builder| builder.name(name))
}

fn start(informer: &SharedInformer<()>) {
    informer.start();
}

type Outcomes = Arc<Mutex<Vec<Result<(), StopError>>>>;

/// Adds a handler to the first informer that stops the second one. All such handlers begin when `together` many have been called.
fn stops(one: &SharedInformer<()>, other: &SharedInformer<()>, together: &Arc<Barrier>, outcomes: &Outcomes) {
    let (other, together, outcomes) = (other.clone(), Arc::clone(together), Arc::clone(outcomes));
    one.subscribe()
        .on_add_async(move |_, _| {
            let (other, together, outcomes) = (other.clone(), Arc::clone(&together), Arc::clone(&outcomes));
            async move {
                together.wait().await;
                let stopped = other.stop().await;
                outcomes.lock().unwrap().push(stopped);
            }
        })
        .register()
        .unwrap();
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn handlers_of_several_informers_that_stop_each_other_in_a_circle_get_one_error_and_all_stop() {
    for count in [2, 3] {
        let leaks = Leaks::watch();
        let (together, outcomes) = (Arc::new(Barrier::new(count)), Outcomes::default());
        let informers: Vec<_> = (0..count).map(|number| named(&format!("things {number}"))).collect();
        for (number, informer) in informers.iter().enumerate() {
            stops(informer, &informers[(number + 1) % count], &together, &outcomes);
        }
        informers.iter().for_each(start);

        wait_until(|| outcomes.lock().unwrap().len() == count).await;

        let outcomes = outcomes.lock().unwrap().clone();
        let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        assert!(matches!(&errors[..], [StopError::WaitsForCaller { .. }]), "{errors:?}");
        for informer in &informers {
            informer.stop().await.unwrap();
        }
        leaks.check();
    }
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn the_error_of_a_circle_of_stops_names_the_informer() {
    let error = StopError::WaitsForCaller { informer: "pods".into(), handler: None };
    assert_eq!(
        error.to_string(),
        "this callback cannot wait for informer pods to stop, because a callback of that informer waits for this one; the \
         informer stops when this callback returns"
    );
}

/// Decision 16: there is no circle, so every call waits until the informer has stopped.
#[tokio::test(start_paused = true)]
async fn handlers_that_stop_informers_in_a_row_wait_without_an_error() {
    let leaks = Leaks::watch();
    let (together, outcomes) = (Arc::new(Barrier::new(3)), Outcomes::default());
    let [first, second, third] = ["first", "second", "third"].map(named);
    stops(&first, &second, &together, &outcomes);
    stops(&second, &third, &together, &outcomes);
    stops(&first, &third, &together, &outcomes);
    [&first, &second, &third].into_iter().for_each(start);

    wait_until(|| outcomes.lock().unwrap().len() == 3).await;

    assert!(outcomes.lock().unwrap().iter().all(Result::is_ok));
    assert_eq!((second.state(), third.state()), (InformerState::Stopped, InformerState::Stopped));
    leaks.stop(&first).await;
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn handlers_of_one_informer_that_stop_each_other_get_one_error_and_both_end() {
    let leaks = Leaks::watch();
    let informer = named("things");
    let (together, outcomes) = (Arc::new(Barrier::new(2)), Arc::new(Mutex::new(Vec::new())));
    let [one, other] = [(); 2].map(|()| Arc::new(OnceLock::<Registration>::new()));
    for (own, stopped) in [(&one, &other), (&other, &one)] {
        let (stopped, together, outcomes) = (Arc::clone(stopped), Arc::clone(&together), Arc::clone(&outcomes));
        let registration = informer.subscribe().named("handler").on_add_async(move |_, _| {
            let (stopped, together, outcomes) = (Arc::clone(&stopped), Arc::clone(&together), Arc::clone(&outcomes));
            async move {
                together.wait().await;
                let stopped = stopped.get().unwrap().stop().await;
                outcomes.lock().unwrap().push(stopped);
            }
        });
        own.set(registration.register().unwrap()).unwrap();
    }
    informer.start();

    wait_until(|| outcomes.lock().unwrap().len() == 2).await;

    let outcomes = outcomes.lock().unwrap().clone();
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(matches!(&errors[..], [StopError::WaitsForCaller { .. }]), "{errors:?}");
    leaks.stop(&informer).await;
}

/// Decision 16
#[test]
fn blocking_handlers_that_stop_the_factories_of_each_other_get_one_error_and_both_factories_stop() {
    without_deadlock(|| {
        many_threads().block_on(async {
            let server = server(&["shop/a"]);
            let (first, second) = (factory(&server), factory(&server));
            let (handle, outcomes) = (tokio::runtime::Handle::current(), Arc::new(Mutex::new(Vec::new())));
            let together = Arc::new(std::sync::Barrier::new(2));
            for (own, stopped) in [(&first, &second), (&second, &first)] {
                let (stopped, handle, together) =
                    (SharedInformerFactory::clone(stopped), handle.clone(), Arc::clone(&together));
                let outcomes = Arc::clone(&outcomes);
                own.informer::<Node>();
                own.informer::<ConfigMap>()
                    .subscribe()
                    .on_add(move |_, _| {
                        together.wait();
                        let stopped = handle.block_on(stopped.stop());
                        outcomes.lock().unwrap().push(stopped);
                    })
                    .register_blocking()
                    .unwrap();
                own.start();
            }

            wait_until(|| outcomes.lock().unwrap().len() == 2).await;

            let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
            let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).flat_map(|stop| stop.errors().to_vec()).collect();
            assert!(
                matches!(&errors[..], [StopError::WaitsForCaller { informer, handler: None }] if &**informer == "configmaps"),
                "{errors:?}"
            );
            first.stop().await.unwrap();
            second.stop().await.unwrap();
        });
    });
}

/// Decision 16: a wait that was given up, or that another task goes on with, is no part of a circle.
#[tokio::test(start_paused = true)]
async fn a_handler_that_no_longer_waits_is_not_counted_as_waiting() {
    let leaks = Leaks::watch();
    let [one, other] = ["one", "other"].map(named);
    let (together, outcome) = (Arc::new(Barrier::new(2)), Arc::new(Mutex::new(None)));
    let (stopped, both) = (other.clone(), Arc::clone(&together));
    one.subscribe()
        .on_add_async(move |_, _| {
            let (stopped, both) = (stopped.clone(), Arc::clone(&both));
            async move {
                both.wait().await;
                stopped.stop_within(SECOND).await.unwrap_err();
                let mut stopping = Box::pin(async move { stopped.stop().await });
                assert!(poll_once(&mut stopping).await.is_none());
                tokio::spawn(stopping);
                tokio::time::sleep(5 * SECOND).await;
            }
        })
        .register()
        .unwrap();
    let (stopped, both, recorded) = (one.clone(), together, Arc::clone(&outcome));
    other
        .subscribe()
        .on_add_async(move |_, _| {
            let (stopped, both, recorded) = (stopped.clone(), Arc::clone(&both), Arc::clone(&recorded));
            async move {
                both.wait().await;
                // The first handler has begun to sleep.
                tokio::time::sleep(2 * SECOND).await;
                let stopped = stopped.stop().await;
                *recorded.lock().unwrap() = Some(stopped);
            }
        })
        .register()
        .unwrap();
    [&one, &other].into_iter().for_each(start);

    wait_until(|| outcome.lock().unwrap().is_some()).await;

    assert_eq!(outcome.lock().unwrap().take(), Some(Ok(())));
    other.stop().await.unwrap();
    leaks.stop(&one).await;
}
