//! The bytes of the core, from outside: what is written is read again, and nothing else is.

mod arbitrary;
mod bucket_samples;
mod messages;
mod recordings;
mod samples;
