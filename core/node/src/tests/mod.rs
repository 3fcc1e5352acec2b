//! Whole nodes over a network that loses nothing: what they come to together.

mod damage;
mod directives;
mod town;
mod user;
mod vouching;
mod whole;
