-- Shared by the scripts that build on an owner's values: those of its hash, and those of loaded
-- rows (R7, R14, R15, R16).
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
  for _, map in ipairs({ KEYS[at], KEYS[at + 1], KEYS[at + 3], KEYS[at + 4] }) do
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
-- Lua makes room for a name that it is told to clear, so only names that are there are cleared.
local function put(out, name, value)
  out.puts[name] = value
  if out.drops[name] then out.drops[name] = nil end
end
local function drop(out, name)
  out.drops[name] = true
  if out.puts[name] then out.puts[name] = nil end
end
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

-- The fields that marks of the owner name in these maps. The five maps are the KEYS from `at` on.
local function marked_fields(at, name, maps)
  local fields = {}
  for _, map in ipairs(maps) do
    local text = call('HGET', KEYS[at + map], name)
    if text and map == 2 then -- the error map has a line for each field
      for field in string.gmatch(table.concat({ '\n', text }), '\n([^\31\n]*)\31') do fields[field] = true end
    elseif text then
      for field in string.gmatch(string.sub(text, 15), '[^\31]+') do fields[field] = true end
    end
  end
  return fields
end

-- The fields of a new hash that must land, because a map names its owner: the former hash was lost
-- with its changes (R16). That is all of them, since a landing of the former hash may be under way.
-- A field that only the former hash had was never there, if `rows` are all that there are.
local function reborn(rows, is_complete, at, name, out)
  local unlanded, held = {}, {}
  for i, row in ipairs(rows) do unlanded[i], held[row.field] = row.field, true end
  if not is_complete then return unlanded end
  for field in pairs(marked_fields(at, name, { 0, 1, 2, 3, 4 })) do
    -- The name of a partner begins with U+001E.
    if not held[field] and string.byte(field) ~= 30 then
      put(out, tombstone(field), 'p')
      unlanded[#unlanded + 1] = field
    end
  end
  return unlanded
end

-- Compares a suspect hash with its rows, all of them. Rows and hash may be of different histories of
-- the owner, so one of them wins as a whole (R14, R16). Returns as `merge`. Its functions are made
-- only here, since most calls need none of them.
local function compare(load, hash, r, key, at, name, out)
  local function is_purged(cell) return cell.value == 'p' and string.byte(cell.name) == 58 end
  local stored, cells = call('HGETALL', key), {}
  for i = 1, #stored, 2 do
    local field = stored[i]
    if string.byte(field) == 58 then field = string.match(field, '^:d:(.*)$') end
    if field then cells[field] = { name = stored[i], value = stored[i + 1] } end
  end

  -- The rejected fields without which the owner has landed up to the version of its hash: a row of
  -- another field is as new as the rejection, and their own row is not.
  local function torn_fields()
    local torn = {}
    for line in string.gmatch(call('HGET', KEYS[at + 2], name) or '', '[^\n]+') do
      local field, version, reason = string.match(line, '^([^\31]*)\31(%d+) %d+ %d+ %d+ %d+ %d+ (.*)$')
      local is_behind, has_landed = false, not field or string.sub(reason, 1, 8) == 'vanished'
      for _, row in ipairs(has_landed and {} or load.rows) do
        if row.version < tonumber(version) then
        elseif row.field == field then
          has_landed = true
        elseif row.version <= hash.version then
          is_behind = true
        end
      end
      if is_behind and not has_landed then torn[field] = true end
    end
    return torn
  end

  if load.newest > hash.version then
    -- The rows of a torn owner are no state. So these fields keep their values.
    local torn = torn_fields()
    for field, cell in pairs(cells) do
      if not torn[field] then drop(out, cell.name) end
    end
    for _, row in ipairs(load.rows) do
      if not torn[row.field] then put(out, row.name, row.value) end
    end
    return load.newest, r.generation, true, {}, false
  end

  -- The hash wins. Where it differs from its rows it must land. The database ignores a row of the
  -- same version.
  local differ, with_row, renews = {}, {}, false
  for _, row in ipairs(load.rows) do
    local cell = cells[row.field]
    with_row[row.field] = true
    if not cell and not hash.complete then
      put(out, row.name, row.value)
    elseif not cell or cell.name ~= row.name or cell.value ~= row.value then
      -- A whole hash knows that the field was never there.
      if not cell then put(out, tombstone(row.field), 'p') end
      if cell or not is_purged(row) then
        differ[#differ + 1] = row.field
        renews = renews or row.version >= hash.version
      end
    end
  end
  for field, cell in pairs(cells) do
    if not with_row[field] and not is_purged(cell) then differ[#differ + 1] = field end
  end
  -- A field that a mark names lands anyway. Marks on probation count while they are to be requeued.
  local needs_mark = renews
  if #differ > 0 and not renews then
    local named = marked_fields(at, name, call('HGET', r.key, 'requeue') and { 0, 1, 2, 3, 4 } or { 0, 1, 2 })
    for _, field in ipairs(differ) do needs_mark = needs_mark or not named[field] end
  end
  return hash.version, r.generation, true, needs_mark and differ or {}, renews
end

-- Takes a proved load and the hash together, as changes of the hash.
-- Returns version, generation and completeness of both. Then the fields that must land although no
-- write has changed them, and whether the hash needs a version of its own for that. A write has one
-- anyway. The five maps are the KEYS from `at` on. `is_reborn` says whether a map names the owner of
-- a new hash.
local function merge(load, hash, version, r, key, at, name, is_reborn, out)
  if hash and hash.generation < r.generation then
    if load.complete then return compare(load, hash, r, key, at, name, out) end
    return hash.version, hash.generation, hash.complete, {}, false -- other rows may be newer
  end
  local names = {}
  for _, row in ipairs(load.rows) do
    names[#names + 1] = row.field
    names[#names + 1] = tombstone(row.field)
  end
  local stored = hash and hmget(key, names) or {}
  for i, row in ipairs(load.rows) do
    local is_held = stored[2 * i - 1] or stored[2 * i]
    if not is_held then put(out, row.name, row.value) end
  end
  if hash then return hash.version, hash.generation, hash.complete or load.complete, {}, false end
  local unlanded = is_reborn and reborn(load.rows, load.complete, at, name, out) or {}
  return load.newest > 0 and load.newest or version, r.generation, load.complete, unlanded, #unlanded > 0
end

-- The field ':v': version, generation, and whether the hash holds all fields.
local function head(version, generation, complete)
  return table.concat({ digits(version), ' ', digits(generation), complete and 'a' or 'p' })
end

-- Marks fields that no write has changed. The mark joins the owner's mark in the dirty map.
local function mark_unlanded(fields, version, r, at, name)
  local held = call('HGET', KEYS[at], name) or '' -- fails if the map is of another type
  if not r.first then call('HSET', r.key, 'first', digits(time())) end
  call('HSET', KEYS[at], name, marked_with(held, mark_text(version), fields))
end

-- Writes the rows of a proved load to the hash (KEYS[1]), and makes it if there is none. Its marker
-- is KEYS[2], the record KEYS[3], and the five maps are the KEYS from `at` on. Returns the new
-- version source, and whether a map names the owner of a new hash.
local function join_rows(load, hash, version, r, at, name, marker_ttl)
  local out = changes()
  local is_reborn = not hash and is_named(at, name)
  local base, generation, complete, unlanded, renews = merge(load, hash, version, r, KEYS[1], at, name, is_reborn, out)
  local source = math.max(r.source, base)
  if not hash or renews then source = source + 1 end
  if source > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
  if renews then base = source end
  put(out, ':v', head(base, generation, complete))
  if is_reborn then
    put_aside(at, name)
    put(out, ':b', digits(source))
  end
  -- ORDER: the mark before the data.
  if #unlanded > 0 then
    mark_unlanded(unlanded, base, r, at, name)
    if hash then call('PERSIST', KEYS[1]) end
  end
  if not hash then set_marker(KEYS[2], digits(source), marker_ttl) end
  if source > r.source then call('HSET', KEYS[3], 'src', digits(source)) end
  write_changes(out, KEYS[1])
  return source, is_reborn and is_named(at, name) -- a mark that was just put aside keeps no hash
end
