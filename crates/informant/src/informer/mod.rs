//! Assembly: the only place where the stages meet.

mod known_objects;
