//! Where requests to URLs that came from somebody else may go, and what dials only that.
//!
//! [`Egress`] is the rule, [`connector`] what obeys it: the address that is checked is the address that is dialled. Whoever
//! sends requests asks [`Egress::check`] about each URL, those of redirects too, and keeps no connections: one that is used
//! again is not looked at again.
//!
//! ```
//! use hospes_egress::Egress;
//!
//! let egress = Egress::public();
//! assert!(egress.check(&"https://example.com/".parse()?).is_ok());
//! assert!(egress.check(&"https://169.254.169.254/latest".parse()?).is_err());
//! # Ok::<(), url::ParseError>(())
//! ```

mod addresses;
mod connector;
mod error;
mod guard;

pub use addresses::{InvalidNetwork, Network};
pub use connector::{Connector, Found, Lookup, Resolver, connector, send_error, system_lookup};
pub use error::FetchError;
pub use guard::{Egress, is_loopback};
