//! Kinds with several versions, scales at any path, and what becomes of a definition.

use super::*;

both_ways! {
    every_served_version_shows_the_objects
}

async fn every_served_version_shows_the_objects(_api: Api) {}
