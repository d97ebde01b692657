-- Shared by the scripts that move and clear marks.

-- A mark's version. What somebody else wrote there counts as 0, as it does for the scan that found it.
local function mark_version(text)
  local value = tonumber(string.match(text, '^%d+$'))
  return value and value <= VERSION_MAX and value or 0
end

-- An error mark's version: the first word.
local function error_version(text) return mark_version(string.match(text, '^%S*')) end

-- Counts the outstanding marks of owners, whose hashes are KEYS from `at` on; changes go by the owner's number (H12).
-- A hash counts the marks made since it was born. One from before it, whose hash vanished, is neither in its count nor taken off it.
local function counts(at)
  local self = { by = {}, headers = {} }
  function self.add(owner, by, version)
    local key = owner > 0 and KEYS[at + owner - 1]
    if owner > 0 and not key then expect(false) end
    if not key then return end
    if not self.headers[owner] then
      local kind = call('TYPE', key).ok
      self.headers[owner] = kind == 'hash' and call('HMGET', key, ':v', ':n', ':e', ':b') or {}
    end
    if version > (tonumber(self.headers[owner][4]) or 0) then self.by[owner] = (self.by[owner] or 0) + by end
  end
  function self.validate()
    for owner, by in pairs(self.by) do
      local h = self.headers[owner]
      local marks = tonumber(string.match(h[2] or '', '^%d+$'))
      -- A hash that somebody else broke is left as it is: without a time to live, nothing of it goes.
      self.by[owner] = h[1] and marks and math.max(marks + by, 0) or nil
    end
  end
  -- The owner that loses its last mark may expire, or goes at once if that was asked for (R2).
  function self.write(ttl)
    local lasting = digits(ttl)
    for owner, marks in pairs(self.by) do
      local h, key = self.headers[owner], KEYS[at + owner - 1]
      if marks > 0 then
        call('HSET', key, ':n', digits(marks))
      elseif h[3] then
        call('UNLINK', key)
      else
        call('HSET', key, ':n', '0')
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
      list[#list + 1] = digits(held[name])
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
