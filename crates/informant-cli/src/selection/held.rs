//! The forms in which objects are held, chosen at run time: a command is written once, for all of them.

use informant::Lazy;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;

use crate::Outcome;
use crate::interrupt::Interrupt;
use crate::objects::Form;

/// In which form objects are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Lazy,
    Decoded,
    LazyMetadata,
    DecodedMetadata,
}

/// A command that does its work on objects of any form.
pub trait OnObjects {
    async fn run<O: Form>(self, interrupt: Interrupt) -> Outcome;
}

impl Held {
    pub async fn run(self, command: impl OnObjects, interrupt: Interrupt) -> Outcome {
        match self {
            Self::Lazy => command.run::<Lazy<DynamicObject>>(interrupt).await,
            Self::Decoded => command.run::<DynamicObject>(interrupt).await,
            Self::LazyMetadata => command.run::<Lazy<PartialObjectMeta<DynamicObject>>>(interrupt).await,
            Self::DecodedMetadata => command.run::<PartialObjectMeta<DynamicObject>>(interrupt).await,
        }
    }
}
