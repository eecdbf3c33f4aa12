//! Assembly: the only place where the stages meet.

mod destinations;
mod known_objects;
