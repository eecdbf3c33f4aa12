//! An embedded Kubernetes API server.

mod error;
mod faults;
mod http;
mod list;
mod load;
mod log;
mod objects;
mod registry;
mod select;
mod server;
mod storage;
mod watch;
mod world;

pub use crate::error::ApiError;
pub use crate::error::Cause;
pub use crate::faults::After;
pub use crate::faults::Ending;
pub use crate::faults::Fault;
pub use crate::faults::Gzip;
pub use crate::faults::On;
pub use crate::faults::plan::RuleId;
pub use crate::http::ResponseBody;
pub use crate::http::listener::ListenError;
pub use crate::http::listener::Listening;
pub use crate::http::request::Verb;
pub use crate::http::service::ApiService;
pub use crate::load::Load;
pub use crate::load::LoadMaker;
pub use crate::load::Mix;
pub use crate::log::Requested;
pub use crate::registry::kind::Kind;
pub use crate::registry::kind::Scope;
pub use crate::server::ApiServer;
pub use crate::server::ApiServerBuilder;
pub use crate::storage::Backup;
