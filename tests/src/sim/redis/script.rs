//! The scripts: one Lua for each thread, `redis.call`, and the conversions between Lua and RESP as
//! Redis makes them.

use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Value};

use super::command::{self, Keys};
use super::data::Data;
use super::reply::Reply;

/// Makes `redis` and forbids globals, as Redis does. Returns a function that runs a script and
/// catches its errors.
const BOOT: &str = "
    local raw = ...
    local error, pcall, type, setmetatable = error, pcall, type, setmetatable
    redis = {}
    function redis.call(...)
        local reply = raw(...)
        if type(reply) == 'table' and reply.err then error(reply) end
        return reply
    end
    function redis.pcall(...) return raw(...) end
    function redis.error_reply(text) return { err = string.gsub(text, '^%-', '') } end
    function redis.status_reply(text) return { ok = text } end
    KEYS, ARGV = {}, {}
    local globals = _G
    setmetatable(globals, {
        __newindex = function(_, name) error({ err = 'ERR Script attempted to create global variable ' .. name }) end,
        __index = function(_, name) error({ err = 'ERR Script attempted to access nonexistent global variable ' .. name }) end,
    })
    return function(script) return pcall(script) end
";

/// A script's text and the rights by its first line.
#[derive(Debug, Clone)]
pub struct Script {
    body: String,
    /// Whether it has no right to write.
    pub read_only: bool,
    /// Whether it runs at the memory limit.
    pub allows_oom: bool,
}

impl Script {
    /// Reads the first line.
    #[must_use]
    pub fn new(source: &str) -> Self {
        let (first, rest) = source.split_once('\n').unwrap_or((source, ""));
        let has = |flag: &str| {
            first
                .split_once("flags=")
                .is_some_and(|(_, flags)| flags.split(',').any(|one| one.trim() == flag))
        };
        let read_only = has("no-writes");
        Self {
            body: format!("\n{rest}"),
            read_only,
            allows_oom: has("allow-oom") || read_only,
        }
    }
}

/// A script under way.
struct Session {
    data: Data,
    keys: Vec<Vec<u8>>,
    read_only: bool,
    /// Whether the script says that it also reads hashes of owners that it did not declare.
    derives: bool,
}

/// The sentence in the header of a script that reads such keys.
const DERIVES: &str = "They have keys of the same form and slot.";

struct Vm {
    lua: Lua,
    run: Function,
    compiled: HashMap<String, Function>,
}

thread_local! {
    static VM: RefCell<Option<Vm>> = const { RefCell::new(None) };
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Runs a script.
pub fn run(
    data: &mut Data,
    sha: &str,
    script: &Script,
    keys: &[Vec<u8>],
    argv: &[Vec<u8>],
) -> Reply {
    let session = Session {
        data: std::mem::take(data),
        keys: keys.to_vec(),
        read_only: script.read_only,
        derives: script.body.contains(DERIVES),
    };
    SESSION.set(Some(session));
    let reply = VM.with_borrow_mut(|vm| in_lua(vm, sha, script, keys, argv));
    if let Some(session) = SESSION.take() {
        *data = session.data;
    }
    reply.unwrap_or_else(|error| Reply::Error(format!("ERR {}", one_line(&error.to_string()))))
}

fn in_lua(
    vm: &mut Option<Vm>,
    sha: &str,
    script: &Script,
    keys: &[Vec<u8>],
    argv: &[Vec<u8>],
) -> mlua::Result<Reply> {
    if vm.is_none() {
        *vm = Some(boot()?);
    }
    let Some(Vm { lua, run, compiled }) = vm else {
        return Ok(Reply::Nil);
    };
    let body = match compiled.get(sha) {
        Some(body) => body.clone(),
        None => {
            let body = lua
                .load(&script.body)
                .set_name("@user_script")
                .into_function()?;
            compiled.insert(sha.to_owned(), body.clone());
            body
        }
    };
    let list = |items: &[Vec<u8>]| {
        lua.create_sequence_from(
            items
                .iter()
                .map(|item| lua.create_string(item))
                .collect::<mlua::Result<Vec<_>>>()?,
        )
    };
    lua.globals().raw_set("KEYS", list(keys)?)?;
    lua.globals().raw_set("ARGV", list(argv)?)?;
    let (ok, value): (bool, Value) = run.call(body)?;
    if ok {
        to_reply(&value)
    } else {
        Ok(thrown(&value))
    }
}

fn boot() -> mlua::Result<Vm> {
    let lua = Lua::new_with(
        StdLib::STRING | StdLib::TABLE | StdLib::MATH,
        LuaOptions::new().catch_rust_panics(false),
    )?;
    let raw = lua.create_function(|lua, args: MultiValue| {
        let reply = SESSION.with_borrow_mut(|session| match session {
            Some(session) => session.call(&args),
            None => Reply::Error("ERR no script runs".to_owned()),
        });
        to_lua(lua, &reply)
    })?;
    let run = lua.load(BOOT).set_name("@boot").call(raw)?;
    Ok(Vm {
        lua,
        run,
        compiled: HashMap::new(),
    })
}

impl Session {
    /// Whether the script may read a hash that it did not declare.
    fn derives(&self, key: &[u8]) -> bool {
        // The hashes of owners are declared last.
        let form = self.keys.last().and_then(|declared| {
            let end = declared.iter().position(|byte| *byte == b'}')?;
            declared.get(..=end)
        });
        self.derives && form.is_some_and(|form| key.starts_with(form))
    }

    fn call(&mut self, args: &MultiValue) -> Reply {
        let Some(mut texts) = args
            .iter()
            .map(argument)
            .collect::<Option<Vec<_>>>()
            .filter(|texts| !texts.is_empty())
        else {
            return error("ERR Lua redis lib command arguments must be strings or integers");
        };
        let name = String::from_utf8_lossy(&texts.remove(0)).to_ascii_uppercase();
        let Some(kind) = command::kind(&name) else {
            return error("ERR Unknown Redis command called from script");
        };
        let (count, step) = match kind.keys {
            Keys::None => (0, 1),
            Keys::First => (1, 1),
            Keys::All => (texts.len(), 1),
            Keys::Odd => (texts.len(), 2),
        };
        if !texts
            .iter()
            .take(count)
            .step_by(step)
            .all(|key| self.keys.contains(key) || !kind.writes && self.derives(key))
        {
            return error("ERR Script attempted to access a key that it did not declare");
        }
        if kind.writes && self.read_only {
            return error("ERR Write commands are not allowed from read-only scripts.");
        }
        command::run(&mut self.data, &name, &texts)
            .unwrap_or_else(|refused| Reply::Error(refused.0))
    }
}

fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

/// Whole numbers become integers. Other numbers have 17 digits.
fn argument(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(
            whole(*number)
                .map_or_else(|| format!("{number}"), |whole| whole.to_string())
                .into_bytes(),
        ),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "only whole numbers of less than 2^53 are cast"
)]
fn whole(number: f64) -> Option<i64> {
    (number.trunc() == number && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        #[expect(clippy::cast_precision_loss, reason = "as Redis does")]
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(text) => return field("ok", text),
        Reply::Error(text) => return field("err", text),
        Reply::Array(items) => {
            let items = items
                .iter()
                .map(|item| to_lua(lua, item))
                .collect::<mlua::Result<Vec<_>>>()?;
            Value::Table(lua.create_sequence_from(items)?)
        }
    })
}

/// Strings as bytes, numbers cut to integers, true as 1, false as nil, tables up to their first
/// nil.
#[expect(clippy::cast_possible_truncation, reason = "as Redis does")]
fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Value::String(text) = table.raw_get("err")? {
                return Ok(Reply::Error(text.to_string_lossy()));
            }
            if let Value::String(text) = table.raw_get("ok")? {
                return Ok(Reply::Status(text.to_string_lossy()));
            }
            let items = table
                .sequence_values::<Value>()
                .map(|item| to_reply(&item?));
            Reply::Array(items.collect::<mlua::Result<_>>()?)
        }
        _ => Reply::Nil,
    })
}

/// The answer of a script that failed with this error.
fn thrown(value: &Value) -> Reply {
    match value {
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(text)) => Reply::Error(text.to_string_lossy()),
            _ => Reply::Error("ERR unknown error".to_owned()),
        },
        Value::String(text) => Reply::Error(format!("ERR {}", one_line(&text.to_string_lossy()))),
        Value::Error(error) => Reply::Error(format!("ERR {}", one_line(&error.to_string()))),
        _ => Reply::Error("ERR unknown error".to_owned()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
