//! Who is who.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A node of the cluster. Given once, in the order of arrival, and never given again. Zero is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    pub const NOBODY: NodeId = NodeId(0);

    pub fn is_nobody(self) -> bool {
        self == Self::NOBODY
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A random token: names one incarnation of a node. Zero is "not known".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cookie(pub u64);

impl Cookie {
    pub const UNKNOWN: Cookie = Cookie(0);
}

/// One cluster, drawn at founding. Zero is "belongs to none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClusterId(pub u64);

impl ClusterId {
    pub const NONE: ClusterId = ClusterId(0);
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One life of a node. A restart from a data directory keeps the `NodeId` and counts `life` up, so that of two
/// lives everyone knows which is the older; the cookie tells two processes apart that claim the same life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    pub life: u32,
    pub cookie: Cookie,
}

/// The name an operator gave to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(pub Arc<str>);

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Name(text.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a node's peers reach it. The core only carries it; the shell knows what it means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address(pub Arc<str>);

impl Default for Address {
    fn default() -> Self {
        Address(Arc::from(""))
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Address(text.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A feature level: what every present node understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Level(pub u16);

/// What a node is in its cluster, once it has been named by a government.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeId,
    pub incarnation: Incarnation,
}
