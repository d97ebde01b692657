-- Shared functions. The registry puts this text behind the first line of each script that names it.
-- A script rejects a call before it writes anything, so a rejected call changes nothing (R10).
local call = redis.call
local VERSION_MAX = 9007199254740991
local CHUNK = 4000 -- arguments of one variadic call, since unpack fails at about 8,000

local function refuse(text) error({ err = text }) end

local function expect(ok)
  if not ok then refuse('BADCALL the script was called with the wrong number of KEYS or ARGV') end
end

-- Without a format Lua rounds large numbers when it prints them (H7). A Lua with 64-bit integers
-- prints them in a third of the time.
local WHOLE = string.format('%d', VERSION_MAX) == '9007199254740991' and '%d' or '%.0f'
local function digits(number) return string.format(WHOLE, number) end

-- A version as the maps of marks keep it: 14 hexadecimal digits. Redis allocates half as much for
-- them as for 16 decimal digits.
local function mark_text(version)
  return string.format('%06x%08x', math.floor(version / 4294967296), version % 4294967296)
end

local function number(text, what)
  local value = tonumber(text)
  if not value or value < 0 or value > VERSION_MAX or value ~= math.floor(value) then
    refuse(table.concat({ 'CORRUPT ', what, ' is not a whole number below 2^53' }))
  end
  return value
end

local function time()
  local parts = call('TIME')
  return parts[1] * 1000000 + parts[2]
end

-- The replication history that this server is in, by its id.
local function history()
  local id = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
  if not id then refuse('CORRUPT INFO names no replication id') end
  return id
end

-- The incarnation that runs this script: the process and its replication history (R14).
local function incarnation()
  local run = string.match(call('INFO', 'server'), 'run_id:(%x+)')
  if not run then refuse('CORRUPT INFO names no run id') end
  return table.concat({ run, '/', history() })
end

-- The record in the partition key `key`. Fails if there is none.
local function record(key)
  local r = call('HMGET', key, 'inc', 'epoch', 'gen', 'src', 'landed', 'first')
  if not r[1] or not r[2] or not r[3] or not r[4] or not r[5] then refuse('UNPREPARED the partition has no record') end
  return {
    key = key,
    incarnation = r[1],
    epoch = r[2],
    generation = number(r[3], 'the generation'),
    source = number(r[4], 'the version source'),
    landed = number(r[5], 'landed'),
    first = r[6],
  }
end

-- The record. Fails if another incarnation made it.
local function present(key)
  local r = record(key)
  if r.incarnation ~= incarnation() then refuse('UNPREPARED the record was made under another incarnation') end
  return r
end

-- The record. Fails if another incarnation made it, or if its epoch is another one.
local function in_epoch(key, epoch)
  local r = present(key)
  if r.epoch ~= epoch then refuse('EPOCH the partition is in another epoch') end
  return r
end

-- The key of a lock holds the time at which it runs out, then its holder.
local function hold(key, holder, ends) call('SET', key, table.concat({ digits(ends), ' ', holder })) end

-- The last holder of a lock, and when the lock runs out. Nil if the holder released it.
local function last_holder(key)
  local ends, holder = string.match(call('GET', key) or '', '^(%d+) (.*)$')
  return holder, tonumber(ends)
end

-- The present holder of a lock, and when the lock runs out. Nil if nobody holds it.
local function holder_of(key)
  local holder, ends = last_holder(key)
  if not holder or ends <= time() then return nil end
  return holder, ends
end

local function held(key, lock)
  if holder_of(key) ~= lock then refuse('LOCKLOST the lock is held by somebody else, or ran out') end
end

-- Raises `landed`. The version source follows, so no later write is below a landed one.
local function raise_landed(key, r, landed)
  if landed > r.landed then call('HSET', key, 'landed', digits(landed)) end
  if landed > r.source then call('HSET', key, 'src', digits(landed)) end
end

local function hmget(key, names)
  if #names <= CHUNK then return #names > 0 and call('HMGET', key, unpack(names)) or {} end
  local values = {}
  for from = 1, #names, CHUNK do
    local part = call('HMGET', key, unpack(names, from, math.min(from + CHUNK - 1, #names)))
    for i = 1, #part do values[from + i - 1] = part[i] end
  end
  return values
end

local function each_chunk(command, key, list)
  if #list > 0 and #list <= CHUNK then return call(command, key, unpack(list)) end
  for from = 1, #list, CHUNK do call(command, key, unpack(list, from, math.min(from + CHUNK - 1, #list))) end
end

-- Whether one of the five maps of marks names the owner. The maps are the KEYS from `at` on.
local function is_named(at, name)
  for map = at, at + 4 do
    if call('HGET', KEYS[map], name) then return true end
  end
  return false
end

-- The mark `text` with more fields, each named once, and another version, as `mark_text` writes it.
-- `text` is empty if there was no mark. No field name holds the separator.
local function marked_with(text, version, more)
  local names = { version, string.sub(text, 15) }
  if names[2] == '' then return table.concat({ names[1], table.concat(more, '\31') }) end
  -- A table finds many names faster than a search of the text.
  local seen, around = #more > 8 and {}, table.concat({ '\31', names[2], '\31' })
  if seen then
    for name in string.gmatch(names[2], '[^\31]+') do seen[name] = true end
  end
  for _, name in ipairs(more) do
    local is_there
    if seen then is_there = seen[name] else is_there = string.find(around, table.concat({ '\31', name, '\31' }), 1, true) end
    if not is_there then names[#names + 1], names[#names + 2] = '\31', name end
  end
  return table.concat(names)
end
