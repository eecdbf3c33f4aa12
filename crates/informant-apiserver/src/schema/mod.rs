//! What the server knows about the fields of kinds.

pub(crate) mod structural;
