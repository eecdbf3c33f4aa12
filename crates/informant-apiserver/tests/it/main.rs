//! All integration tests, as one program: linking is what costs.

mod conformance;
