//! Tests of the distributor, by what they are about.

mod follow;
mod ghost;
mod harness;
mod operations;
mod planning;
mod rules;
mod walk;
