//! In whose name a request is made. Nobody checks it yet; it travels with every request, so that formats need not
//! change once somebody does.

use crate::Payload;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Empty: anybody. Costs nothing then.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Payload", into = "Payload")]
pub struct Principal(Option<Arc<[u8]>>);

impl Principal {
    /// Bytes of the longest.
    pub const MOST: usize = 255;
    pub const ANONYMOUS: Principal = Principal(None);

    pub fn as_slice(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl TryFrom<&[u8]> for Principal {
    type Error = &'static str;

    fn try_from(bytes: &[u8]) -> Result<Principal, Self::Error> {
        match bytes.len() {
            0 => Ok(Principal::ANONYMOUS),
            1..=Principal::MOST => Ok(Principal(Some(bytes.into()))),
            _more => Err("a principal has 255 bytes at most"),
        }
    }
}

impl TryFrom<Payload> for Principal {
    type Error = &'static str;

    fn try_from(bytes: Payload) -> Result<Principal, Self::Error> {
        bytes.as_slice().try_into()
    }
}

impl From<Principal> for Payload {
    fn from(principal: Principal) -> Payload {
        principal.as_slice().into()
    }
}
