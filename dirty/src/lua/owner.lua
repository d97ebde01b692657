-- Shared by the scripts that build on an owner's values: what the hash holds, and rows taken together with it (R7, R14, R15).
local function tombstone(field) return table.concat({ ':d:', field }) end

-- What the hash says of itself; nil if there is none. A clean one has no count of marks, and counts as born at its version: that is
-- never before its birth, so a load from before is at worst refused once.
local function header(key)
  local h = call('HMGET', key, ':v', ':b', ':n')
  if not h[1] then return nil end
  local text, generation, flag = string.match(h[1], '^(%d+) (%d+)([ap])$')
  local version = number(text, ':v')
  return {
    version = version,
    born = h[2] and number(h[2], ':b') or version,
    marks = h[3] and number(h[3], ':n') or 0,
    generation = number(generation, 'the generation'),
    complete = flag == 'a',
  }
end

-- A negative answer as it is stored: of this generation, since what came before a rewind tells nothing of what has landed (R14).
local function absence(r) return table.concat({ '-', digits(r.generation) }) end

-- The exist marker: '?' unknown, '-' absent, or a version; and that version, or 0.
local function marker(key, r)
  local text = call('GET', key) or '?'
  if text == absence(r) then return '-', 0 end
  if text == '?' or string.sub(text, 1, 1) == '-' then return '?', 0 end
  return text, number(text, 'the exist marker')
end

-- The marker as a reader remembers it; of a hash its version, which the marker repeats unless somebody deleted it. One below while
-- the hash holds unlanded data, since rows that are read now are behind it. They may join that hash (R7), but equal no later
-- marker, and lie below the birth of any hash that follows.
local function observed(hash, mark)
  if hash and hash.marks > 0 then return digits(hash.version - 1) end
  return hash and digits(hash.version) or mark
end

-- ARGV from `at` on: observed marker, epoch, complete (0 or 1), rows; then field, stored name, stored value, version a row.
local function load_of(at)
  local load = { marker = ARGV[at], epoch = ARGV[at + 1], complete = ARGV[at + 2] == '1', rows = {}, newest = 0 }
  load.version = (load.marker == '?' or load.marker == '-') and 0 or number(load.marker, 'the observed marker')
  local count = number(ARGV[at + 3], 'the number of rows')
  expect(#ARGV == at + 3 + 4 * count)
  for i = 1, count do
    local from = at + 4 * i
    local row = { field = ARGV[from], name = ARGV[from + 1], value = ARGV[from + 2], version = number(ARGV[from + 3], 'a row') }
    load.rows[i] = row
    load.newest = math.max(load.newest, row.version)
  end
  return load
end

-- Whether nothing happened since the load observed the owner that could make its rows stale.
local function proved(load, hash, mark, r)
  if load.epoch ~= r.epoch then return false end
  if hash and hash.generation >= r.generation then return hash.born <= load.version end
  return observed(hash, mark) == load.marker -- no hash; or a suspect one, with whose version the rows are compared
end

-- What is to be written to a hash: names to values, and names to drop. A later call about a name overrides an earlier one.
local function changes()
  local self = { puts = {}, drops = {} }
  function self.put(name, value)
    self.puts[name], self.drops[name] = value, nil
  end
  function self.drop(name)
    self.puts[name], self.drops[name] = nil, true
  end
  function self.write(key)
    local pairs_list, names = {}, {}
    for name, value in pairs(self.puts) do
      pairs_list[#pairs_list + 1] = name
      pairs_list[#pairs_list + 1] = value
      if string.sub(name, 1, 3) == ':d:' then self.tombstones = true end
    end
    for name in pairs(self.drops) do names[#names + 1] = name end
    if self.tombstones then
      pairs_list[#pairs_list + 1] = ':t'
      pairs_list[#pairs_list + 1] = '1'
    end
    each_chunk('HDEL', key, names) -- first: a right that is missing for it leaves all as it was
    each_chunk('HSET', key, pairs_list)
  end
  return self
end

-- Adds the rows that win over the hash: of fields that it does not hold; of a suspect hash also those newer than it.
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
      out.drop(row.field)
      out.drop(tombstone(row.field))
      out.put(row.name, row.value)
    end
  end
end

-- Version, generation and completeness of the owner once the proved load is taken together with the hash.
local function merged(load, hash, version, r)
  if not hash then return math.max(version, load.newest), r.generation, load.complete end
  if hash.generation < r.generation and load.complete then
    return math.max(hash.version, load.newest), r.generation, true
  end
  return hash.version, hash.generation, hash.complete or load.complete
end

-- The field ':v': version, generation, and whether the hash holds all fields.
local function head(version, generation, complete)
  return table.concat({ digits(version), ' ', digits(generation), complete and 'a' or 'p' })
end
