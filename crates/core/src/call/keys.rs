//! The keys of JSON objects that distinguish the forms of calls.

/// The set of an object's keys that distinguish call forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallKeys(u16);

impl CallKeys {
    pub(super) const TOOL: u16 = 1;
    pub(super) const TOOL_CALL: u16 = 1 << 1;
    pub(super) const TOOL_CALLS: u16 = 1 << 2;
    pub(super) const TOOL_NAME: u16 = 1 << 3;
    pub(super) const FUNCTION_CALL: u16 = 1 << 4;
    pub(super) const FUNCTION: u16 = 1 << 5;
    pub(super) const NAME: u16 = 1 << 6;
    pub(super) const PARAMETERS: u16 = 1 << 7;
    pub(super) const ARGUMENTS: u16 = 1 << 8;
    pub(super) const TERMINATE: u16 = 1 << 9;
    /// A key that does not occur in calls.
    pub(super) const FOREIGN: u16 = 1 << 10;

    pub(super) const ONLY_TERMINATE: CallKeys = CallKeys(CallKeys::TERMINATE);

    pub(super) fn add(&mut self, key: &str) {
        self.0 |= CallKeys::flag(key);
    }

    /// Updates the set for a key whose value is not a string and begins with the byte `first`.
    pub(super) fn add_non_string(&mut self, key: &str, first: u8) {
        let is_call = match CallKeys::flag(key) {
            CallKeys::TOOL | CallKeys::TOOL_NAME => false,
            CallKeys::TOOL_CALL | CallKeys::FUNCTION_CALL | CallKeys::FUNCTION => first == b'{',
            CallKeys::TOOL_CALLS => first == b'[',
            _ => true,
        };
        if !is_call {
            self.0 = self.0 & !CallKeys::flag(key) | CallKeys::FOREIGN;
        }
    }

    fn flag(key: &str) -> u16 {
        match key {
            "tool" => CallKeys::TOOL,
            "tool_call" => CallKeys::TOOL_CALL,
            "tool_calls" => CallKeys::TOOL_CALLS,
            "tool_name" => CallKeys::TOOL_NAME,
            "function_call" | "functionCall" => CallKeys::FUNCTION_CALL,
            "function" => CallKeys::FUNCTION,
            "name" => CallKeys::NAME,
            "parameters" => CallKeys::PARAMETERS,
            "arguments" => CallKeys::ARGUMENTS,
            "terminate" => CallKeys::TERMINATE,
            "id" | "type" => 0,
            _ => CallKeys::FOREIGN,
        }
    }

    pub(super) fn has(self, keys: u16) -> bool {
        self.0 & keys == keys
    }

    pub(super) fn has_any(self, keys: u16) -> bool {
        self.0 & keys != 0
    }

    /// Returns true if the keys belong to a call in the form of CALL-1 that lacks the tool's name: `parameters` and `terminate`.
    pub(super) fn lack_tool(self) -> bool {
        let others = CallKeys::NAME
            | CallKeys::FUNCTION
            | CallKeys::TOOL_NAME
            | CallKeys::FUNCTION_CALL
            | CallKeys::FOREIGN;
        self.has(CallKeys::PARAMETERS | CallKeys::TERMINATE) && !self.has_any(others)
    }

    /// Returns true if the keys occur in calls only, so that the object is a call even if its tool is unknown.
    pub(super) fn are_distinctive(self) -> bool {
        self.has_any(
            CallKeys::TOOL
                | CallKeys::TOOL_CALL
                | CallKeys::TOOL_CALLS
                | CallKeys::TOOL_NAME
                | CallKeys::FUNCTION_CALL,
        ) || self.lack_tool()
    }

    /// Returns true if all keys can occur in a call, and at least one is typical of calls.
    pub(super) fn are_all_of_call(self) -> bool {
        self.has_any(CallKeys::PARAMETERS | CallKeys::ARGUMENTS | CallKeys::TERMINATE)
            && !self.has(CallKeys::FOREIGN)
    }
}
