-- Shared by the scripts that move and clear marks.

-- Whether this server reads hexadecimal numbers of 64 bits.
local WIDE = tonumber('fffffffffffff', 16) == 4503599627370495

-- A mark's version. What somebody else wrote there counts as 0, as it does for the scan that found it.
local function mark_version(text)
  if #text ~= 14 or string.find(text, '[^0-9a-f]') then return 0 end
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
-- What has no count is clean, or was broken by somebody else; either is left as it is.
local function counts(at)
  local keys, marks, born, doomed, changed = KEYS, {}, {}, {}, {}
  local self = {}
  local function look(owner)
    if not keys[at + owner - 1] then expect(false) end
    local key = keys[at + owner - 1]
    local h = redis.pcall('HMGET', key, ':n', ':e', ':b') -- a key of another type counts nothing
    local count = not h.err and h[1]
    -- Mostly there is one, and nothing to be read.
    marks[owner] = count and (count == '1' and 1 or tonumber(string.match(count, '^%d+$'))) or false
    doomed[owner], born[owner] = h[2], h[3] and tonumber(h[3]) or 0
  end
  function self.add(owner, by, version)
    if owner == 0 then return end
    if marks[owner] == nil then look(owner) end
    if marks[owner] and version > born[owner] then
      marks[owner] = marks[owner] + by
      changed[owner] = true
    end
  end
  -- The owner that loses its last mark may expire, or goes at once if that was asked for (R2).
  function self.write(ttl)
    local lasting = digits(ttl)
    for owner in pairs(changed) do
      local key, left = keys[at + owner - 1], marks[owner]
      if left > 0 then
        call('HSET', key, ':n', digits(left))
      elseif doomed[owner] then
        call('UNLINK', key)
      else
        call('HDEL', key, ':n', ':b') -- clean: no count, born at its version
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

-- Every third of ARGV from `at` on.
local function arguments(at)
  local list = {}
  for i = at, #ARGV, 3 do list[#list + 1] = ARGV[i] end
  return list
end

-- The part of a snapshot's first-mark time goes with its last mark.
local function end_of_snapshot(snapshot, part)
  if call('EXISTS', snapshot) == 0 then call('HDEL', part, 'first_saving') end
end
