//! Services of the Model Context Protocol (MCP) as supervised actors, and their tools for Dirigent's agents.
//!
//! [`McpServices`] keeps one actor for each configured service. A service starts when one of its tools is called, is restarted when it
//! crashes, and is stopped with its whole process tree. Its tools are provided as a [`ToolSource`](dirigent_tools::ToolSource), with
//! names such as `mcp__github__create_issue`.
//!
//! All text from a service is untrusted. Its length is limited, and it is cleaned before a model or a person reads it. This crate neither
//! decides about runs nor approves calls: it only says in each tool's spec whether a call needs approval, and in each event to which call of
//! which run it belongs.
#![warn(missing_docs)]

mod client;
mod config;
mod connection;
mod elicitation;
mod error;
mod expand;
mod http;
mod import;
mod list_pace;
mod names;
mod process;
mod protocol_error;
mod restart;
mod result;
mod service;
mod service_actor;
mod services;
mod status;
mod stderr_tail;
mod text;
mod tool;
mod tool_list;
mod transport;
mod user_waits;

pub use config::{
    CommandEndpoint, DEFAULT_CALL_TIMEOUT, DEFAULT_START_TIMEOUT, Endpoint, InvalidService, MAX_NAME,
    ServiceConfig, ServiceName, UrlEndpoint,
};
pub use error::McpError;
pub use import::{Import, ImportError, SkippedService, import};
pub use names::{service_of, tool_prefix};
pub use restart::Supervision;
pub use result::TOOL_FAILED;
pub use services::McpServices;
pub use status::{ServiceEvent, ServiceInfo, ServiceState, UnavailableTool, WhyStopped};
pub use tool::SERVICE_UNAVAILABLE;
pub use tool_list::ToolList;
