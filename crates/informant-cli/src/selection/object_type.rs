//! Chooses the object type at run time, so that a command is written once, generic over the object type.

use informant::Lazy;
use kube::core::{DynamicObject, PartialObjectMeta};

use crate::{Outcome, interrupt::Interrupt, objects::PrintableObject};

/// The object type in which the cache holds objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    Lazy,
    Decoded,
    LazyMetadata,
    DecodedMetadata,
}

/// A command that works with any object type.
pub trait ObjectCommand {
    async fn run<O: PrintableObject>(self, interrupt: Interrupt) -> Outcome;
}

impl ObjectType {
    pub async fn run(self, command: impl ObjectCommand, interrupt: Interrupt) -> Outcome {
        match self {
            Self::Lazy => command.run::<Lazy<DynamicObject>>(interrupt).await,
            Self::Decoded => command.run::<DynamicObject>(interrupt).await,
            Self::LazyMetadata => command.run::<Lazy<PartialObjectMeta<DynamicObject>>>(interrupt).await,
            Self::DecodedMetadata => command.run::<PartialObjectMeta<DynamicObject>>(interrupt).await,
        }
    }
}
