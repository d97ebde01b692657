-- Shared by the scripts that build on an owner's values: those of its hash, and those of loaded
-- rows (R7, R14, R15).
local function tombstone(field) return table.concat({ ':d:', field }) end

-- The header of the hash. Nil if there is no hash.
local function header(key)
  local head = call('HMGET', key, ':v', ':t')
  if not head[1] then return nil end
  local text, generation, flag = string.match(head[1], '^(%d+) (%d+)([ap])$')
  return {
    version = number(text, ':v'),
    generation = number(generation, 'the generation'),
    complete = flag == 'a',
    tombstones = head[2],
  }
end

-- How long the marker of an observation stays, milliseconds. No load takes longer.
local OBSERVED_TTL = '60000'

-- The exist marker as it is stored: "NUMBER" of the last hash, "?NUMBER" of an observation, or
-- "-GENERATION NUMBER" of a negative answer. A negative answer from before a rewind says nothing of
-- landed data (R14).
-- Returns the marker's kind: '' for a hash, '-' for absent, '?' for unknown, '=' for no marker. Then
-- its number, and the number of the last hash, or 0. Without a marker the number is the version
-- source: while that stays, no hash is made.
local function marker(key, r)
  local text = call('GET', key)
  if not text then return '=', digits(r.source), 0 end
  local generation, of_absence = string.match(text, '^%-(%d+) (%d+)$')
  if generation then return generation == digits(r.generation) and '-' or '?', of_absence, 0 end
  local of_observation = string.match(text, '^%?(%d+)$')
  if of_observation then return '?', of_observation, 0 end
  return '', text, number(text, 'the exist marker')
end

-- Remembers for a while that the owner of a proved load has no rows. The number stays.
local function set_absent(key, mark_number, r, ttl)
  call('SET', key, table.concat({ '-', digits(r.generation), ' ', mark_number }), 'PX', digits(ttl))
end

-- Gives the marker the number of a new hash. It stays for `ttl` milliseconds, or for ever with "0".
local function set_marker(key, mark_number, ttl)
  if ttl == '0' then call('SET', key, mark_number) else call('SET', key, mark_number, 'PX', ttl) end
end

-- The marker as an observation remembers it. Without a marker it sets one.
local function observed(key, record_key, r)
  local kind, mark_number = marker(key, r)
  if kind == '=' then
    if r.source >= VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
    r.source = r.source + 1
    kind, mark_number = '?', digits(r.source)
    -- ORDER: the source first. So no failure in between lets a number be given twice.
    call('HSET', record_key, 'src', mark_number)
    call('SET', key, table.concat({ kind, mark_number }), 'PX', OBSERVED_TTL)
  end
  return table.concat({ kind, mark_number })
end

-- Reads a load from ARGV, from `at` on: observed marker with its kind, whether there was a hash (0 or 1), epoch,
-- complete (0 or 1), number of rows. Then for each row field, stored name, stored value and
-- version. The load ends at `last`, which is the last argument unless it is given.
local function load_of(at, last)
  last = last or #ARGV
  expect(last >= at + 4 and last <= #ARGV)
  local load = { marker = ARGV[at], present = ARGV[at + 1] == '1', epoch = ARGV[at + 2], complete = ARGV[at + 3] == '1', rows = {}, newest = 0 }
  local count = number(ARGV[at + 4], 'the number of rows')
  expect(last == at + 4 + 4 * count)
  for i = 1, count do
    local from = at + 1 + 4 * i
    local row = { field = ARGV[from], name = ARGV[from + 1], value = ARGV[from + 2], version = number(ARGV[from + 3], 'a row') }
    load.rows[i] = row
    load.newest = math.max(load.newest, row.version)
  end
  return load
end

-- Whether the load still holds: nothing happened since its observation that can have made its rows
-- stale. Each new hash gives the marker another number. So with the same marker no hash was made
-- since, and a hash that is still there holds all writes since. A marker may vanish at any moment,
-- so its absence proves nothing.
local function proved(load, hash, kind, mark_number, r)
  if load.epoch ~= r.epoch then return false end
  if load.marker ~= table.concat({ kind, mark_number }) then return false end
  return load.present == (hash ~= nil)
end

-- Gives the marks of a lost hash a name of their own (R6). A script that makes a hash for an owner
-- that a map names has found that the former hash is lost. Nothing joins the marks that are put
-- aside. The new hash says when it was born, which tells its own marks from them. The five maps are
-- the KEYS from `at` on.
local function put_aside(at, name)
  for _, map in ipairs({ KEYS[at], KEYS[at + 3], KEYS[at + 4] }) do
    local text = call('HGET', map, name)
    if text then
      call('HSET', map, table.concat({ name, '\31', string.sub(text, 1, 14) }), text)
      call('HDEL', map, name)
    end
  end
end

-- Changes of a hash: values by name, and names to drop. A later change of a name overrides an
-- earlier one.
local function changes() return { puts = {}, drops = {} } end
local function put(out, name, value) out.puts[name], out.drops[name] = value, nil end
local function drop(out, name) out.puts[name], out.drops[name] = nil, true end
local function write_changes(out, key)
  local list, names = {}, {}
  for name in pairs(out.drops) do names[#names + 1] = name end
  local buries = false
  for name, value in pairs(out.puts) do
    list[#list + 1], list[#list + 2] = name, value
    if string.byte(name) == 58 and string.sub(name, 1, 3) == ':d:' then buries = true end
  end
  if buries then
    list[#list + 1], list[#list + 2] = ':t', '1'
  end
  each_chunk('HDEL', key, names) -- first: without the right the hash stays as it was
  each_chunk('HSET', key, list)
end

-- Adds the rows that win over the hash: rows of fields that it does not hold. If the hash is
-- suspect, newer rows win, too.
local function overlay(load, hash, key, r, out)
  local held_names = {}
  if hash then
    for _, row in ipairs(load.rows) do
      held_names[#held_names + 1] = row.field
      held_names[#held_names + 1] = tombstone(row.field)
    end
  end
  local stored = hash and hmget(key, held_names) or {}
  local suspect = hash and hash.generation < r.generation
  for i, row in ipairs(load.rows) do
    local known = stored[2 * i - 1] or stored[2 * i]
    if not known or (suspect and row.version > hash.version) then
      drop(out, row.field)
      drop(out, tombstone(row.field))
      put(out, row.name, row.value)
    end
  end
end

-- Version, generation and completeness of the proved load and the hash together.
local function merged(load, hash, version, r)
  if not hash then return load.newest > 0 and load.newest or version, r.generation, load.complete end
  if hash.generation < r.generation and load.complete then
    return math.max(hash.version, load.newest), r.generation, true
  end
  return hash.version, hash.generation, hash.complete or load.complete
end

-- The field ':v': version, generation, and whether the hash holds all fields.
local function head(version, generation, complete)
  return table.concat({ digits(version), ' ', digits(generation), complete and 'a' or 'p' })
end

-- Writes the rows of a proved load to the hash (KEYS[1]), and makes it if there is none. Its marker
-- is KEYS[2], the record KEYS[3], and the five maps are the KEYS from `at` on. Returns the new
-- version source, and whether a map names the owner of a new hash.
local function join_rows(load, hash, version, r, at, name, marker_ttl)
  local out = changes()
  overlay(load, hash, KEYS[1], r, out)
  local base, generation, complete = merged(load, hash, version, r)
  put(out, ':v', head(base, generation, complete))
  local source = math.max(r.source, base)
  local is_marked = not hash and is_named(at, name)
  if not hash then
    source = source + 1
    if source > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
    if is_marked then
      put_aside(at, name)
      put(out, ':b', digits(source))
      is_marked = is_named(at, name) -- a mark that was just put aside keeps no hash
    end
    set_marker(KEYS[2], digits(source), marker_ttl)
  end
  if source > r.source then call('HSET', KEYS[3], 'src', digits(source)) end
  write_changes(out, KEYS[1])
  return source, is_marked
end
