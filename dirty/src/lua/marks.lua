-- Shared by the scripts that move and clear marks.

-- Whether this server reads hexadecimal numbers of 64 bits.
local WIDE = tonumber('fffffffffffff', 16) == 4503599627370495

-- A mark's version. What somebody else wrote there counts as 0, as it does for the scan that found it. The highest bit says that the mark
-- is left to its owner though it has landed (settle.lua).
local function mark_version(text)
  if #text ~= 14 or string.find(text, '[^0-9a-f]') then return 0 end
  local first = string.byte(text)
  if first == 56 or first == 57 then text = table.concat({ first == 56 and '0' or '1', string.sub(text, 2) }) end
  local value = WIDE and tonumber(text, 16)
    or tonumber(string.sub(text, 1, 6), 16) * 4294967296 + tonumber(string.sub(text, 7), 16)
  return value <= VERSION_MAX and value or 0
end

-- An error mark's version: the first word, decimal.
local function error_version(text)
  local value = tonumber(string.match(string.match(text, '^%S*'), '^%d+$'))
  return value and value <= VERSION_MAX and value or 0
end

-- Counts the outstanding marks of owners, whose hashes are KEYS from `at` on; changes go by the owner's number (H12).
-- A hash counts the marks made since it was born. One from before it, whose hash vanished, is neither in its count nor taken off it.
-- What has no count is clean, or was broken by somebody else; either is left as it is. Of a hash of an earlier generation than the
-- partition's, if that is given, no grant holds.
local function counts(at, generation)
  local keys, marks, born, doomed, changed = KEYS, {}, {}, {}, {}
  local grants, told, ended = {}, {}, {}
  local self = {}
  local function look(owner)
    if not keys[at + owner - 1] then expect(false) end
    local key = keys[at + owner - 1]
    local h = redis.pcall('HMGET', key, ':n', ':e', ':b', ':o', ':v') -- a key of another type counts nothing
    local count = not h.err and h[1]
    -- Mostly there is one, and nothing to be read.
    marks[owner] = count and (count == '1' and 1 or tonumber(string.match(count, '^%d+$'))) or false
    doomed[owner], born[owner] = h[2], h[3] and tonumber(h[3]) or 0
    if not marks[owner] or not h[4] then return end
    local writer, since = string.match(h[4], '^(.+) (%d+)$')
    -- A hash from before a rewind: its writers were told, and whoever writes it compares it first.
    local is_suspect = h[5] and generation and tonumber(string.match(h[5], '^%d+ (%d+)') or '0') < generation
    if writer and h[5] and not is_suspect then grants[owner] = { writer = writer ~= '-' and writer, since = tonumber(since), head = h[5] } end
  end
  -- Who may change the owner without a script, and since which version; nil if nobody could since it was clean.
  local function grant(owner)
    if owner == 0 then return nil end
    if marks[owner] == nil then look(owner) end
    return grants[owner]
  end
  local function covers(g, version) return g and g.writer and version >= g.since end
  -- Whether a mark may stand for a write without a script that came after its owner was read, at version `read`.
  function self.is_behind(owner, version, read)
    local g = grant(owner)
    if not g or string.find(g.head, read, 1, true) == 1 and string.byte(g.head, #read + 1) == 32 then return false end
    return covers(g, version) or g.since > number(read, 'a version')
  end
  -- Whether a mark is the only one of an owner that may be changed without a script.
  function self.is_only(owner, version) return covers(grant(owner), version) and marks[owner] == 1 and not doomed[owner] end
  -- Whether a mark is the only one of its owner: a hash counts none from before it was born.
  function self.has_one(owner, version) return owner ~= 0 and marks[owner] == 1 and version > born[owner] end
  -- Ends the grant of an owner that covers a mark which goes.
  function self.let_go(owner, version)
    local g = grant(owner)
    if not covers(g, version) then return end
    local names = told[g.writer] or {}
    told[g.writer], names[#names + 1], names[#names + 2] = names, keys[at + owner - 1], '1'
    ended[owner] = string.match(g.head, '^%d+') or digits(VERSION_MAX)
    g.writer, g.since = false, tonumber(ended[owner])
  end
  function self.add(owner, by, version)
    if owner == 0 then return end
    if marks[owner] == nil then look(owner) end
    if marks[owner] and version > born[owner] then
      marks[owner] = marks[owner] + by
      changed[owner] = true
    end
  end
  -- Before any mark goes: should this fail, such as for a right, its writer would go on without one (R17).
  function self.tell()
    for writer, names in pairs(told) do
      if call('EXISTS', writer) == 1 then each_chunk('HSET', writer, names) end
    end
    told = {}
  end
  -- The owner that loses its last mark may expire, or goes at once if that was asked for (R2).
  function self.write(ttl)
    local lasting = digits(ttl)
    for owner, version in pairs(ended) do
      -- One that becomes clean says nothing of it.
      if marks[owner] > 0 then call('HSET', keys[at + owner - 1], ':o', table.concat({ '- ', version })) end
    end
    for owner in pairs(changed) do
      local key, left = keys[at + owner - 1], marks[owner]
      if left > 0 then
        call('HSET', key, ':n', digits(left))
      elseif doomed[owner] then
        call('UNLINK', key)
      else
        call('HDEL', key, ':n', ':b', ':o') -- clean: no count, born at its version, granted to nobody
        call('PEXPIRE', key, lasting)
      end
    end
  end
  return self
end

-- Adds marks to a map in which some of the same names may stand already: the greater version stays, and a mark that merges into
-- another is taken off its owner's count.
local function keeper(map, names, owners)
  local self, held, puts = {}, {}, {}
  if names then
    for i, stored in ipairs(hmget(map, names)) do held[names[i]] = stored and mark_version(stored) or nil end
  end
  function self.put(name, owner, version)
    if held[name] then owners.add(owner, -1, math.min(held[name], version)) end
    held[name] = math.max(held[name] or 0, version)
    puts[name] = true
  end
  -- Answers whether anything was added.
  function self.write()
    local list = {}
    for name in pairs(puts) do
      list[#list + 1] = name
      list[#list + 1] = mark_text(held[name])
    end
    each_chunk('HSET', map, list)
    return #list > 0
  end
  return self
end

-- Puts marks back into the dirty map: those that may stand for writes which have not landed, and those of owners that are changed again and
-- again, which have landed at their version. `first` is since when the dirty map holds marks, if it does.
local function returner(map, owners, first)
  local self, list, waits = {}, {}, false
  if first then first = number(first, 'first') end
  function self.put(name, owner, version)
    waits = true
    -- If there is one of that name, it stands for both.
    if not owners.has_one(owner, version) and call('HEXISTS', map, name) == 1 then return owners.add(owner, -1, version) end
    list[#list + 1], list[#list + 2] = name, mark_text(version)
  end
  function self.put_landed(name, text) list[#list + 1], list[#list + 2] = name, text end
  -- `collected` is when owners were read: what has not landed of them was written later.
  function self.write(key, collected)
    if #list == 0 and not waits then return end
    each_chunk('HSET', map, list)
    local since = waits and math.min(collected, time()) or time()
    if not first or since < first then call('HSET', key, 'first', digits(since)) end
    if not first then
      -- As in update.lua: a small map is a list that is searched one by one, until it has held a long value.
      call('HSET', map, ':', string.rep(':', 65))
      call('HDEL', map, ':')
    end
  end
  return self
end

-- Every third of ARGV from `at` to `last`, or to the end.
local function arguments(at, last)
  local list = {}
  for i = at, last or #ARGV, 3 do list[#list + 1] = ARGV[i] end
  return list
end

-- The part of a snapshot's first-mark time goes with its last mark.
local function end_of_snapshot(snapshot, part)
  if call('EXISTS', snapshot) == 0 then call('HDEL', part, 'first_saving') end
end
