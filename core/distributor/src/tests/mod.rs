//! Tests of the distributor, by what they are about.

mod ghost;
mod harness;
mod operations;
mod planning;
mod rules;
mod walk;
