-- Shared by the scripts that move and clear marks. Each names these keys of its partition first, up
-- to the last that it needs. A script that clears marks then names the hash of each mark's owner.
-- If a mark has no hash to release, the script names the key of the owners to evict instead. Such a
-- mark is unreadable, or was put aside.
local DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, PART, LOCK, EVICT, SESSIONS, LINKS, OWNERS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10

-- Whether this server's Lua reads 64-bit hexadecimal numbers.
local WIDE = tonumber('fffffffffffff', 16) == 4503599627370495

-- A mark's version. An unreadable one counts as 0, as in the scan that found the mark.
local function mark_version(text)
  local digits14 = string.sub(text, 1, 14)
  if #digits14 ~= 14 or string.find(digits14, '[^0-9a-f]') then return 0 end
  local value = WIDE and tonumber(digits14, 16)
    or tonumber(string.sub(digits14, 1, 6), 16) * 4294967296 + tonumber(string.sub(digits14, 7), 16)
  return value <= VERSION_MAX and value or 0
end

-- Joins two marks of one owner: the fields of both, and the greater version.
local function joined(one, other)
  if not one or one == other then return other end
  local version, more = math.max(mark_version(one), mark_version(other)), {}
  for name in string.gmatch(string.sub(other, 15), '[^\31]+') do more[#more + 1] = name end
  return marked_with(one, mark_text(version), more)
end

-- Collects marks for a map. A mark joins the one of the same name, if there is one.
local function adder(map)
  local self, puts = {}, {}
  function self.put(name, text)
    puts[name] = joined(puts[name] or call('HGET', map, name) or nil, text)
  end
  function self.write()
    local list = {}
    for name, text in pairs(puts) do
      list[#list + 1] = name
      list[#list + 1] = text
    end
    each_chunk('HSET', map, list)
    return #list > 0
  end
  return self
end

-- The error marks of an owner: for each field its line without the name, then the fields in order.
local function error_lines(text)
  local fields, order = {}, {}
  for line in string.gmatch(text or '', '[^\n]+') do
    local field, rest = string.match(line, '^([^\31]*)\31(.*)$')
    if field and not fields[field] then
      order[#order + 1] = field
      fields[field] = rest
    end
  end
  return fields, order
end

-- A mark names partners beside its fields: owners that must land together with it (G1). The name of
-- a partner is U+001E and the owner's name. Partners also have lines among the error marks.
local function is_partner(name) return string.byte(name) == 30 end

-- U+001E alone says that the owner has more partners than its mark names, in a sorted set of links.
-- Only marks of the dirty map and of the snapshot say so, and each of these maps has a set. A link
-- is the owner's name, U+001F and the partner's name. Reads at most so many links, or all.
local function further_partners(links, owner, most)
  local from, to = table.concat({ '[', owner, '\31' }), table.concat({ '(', owner, '\32' })
  local found = call('ZRANGE', links, from, to, 'BYLEX', 'LIMIT', '0', most or '-1')
  for i = 1, #found do found[i] = string.sub(found[i], #owner + 2) end
  return found
end

-- A mark of the snapshot that names all of its partners itself, as other maps keep it.
local function whole_mark(name, text)
  local own, signs = string.gsub(table.concat({ text, '\31' }), '\31\30\31', '\31')
  if signs == 0 then return text end
  local more = further_partners(KEYS[LINKS], name)
  for i = 1, #more do more[i] = table.concat({ '\30', more[i] }) end
  return marked_with(string.sub(own, 1, -2), string.sub(own, 1, 14), more)
end

-- The partners among an owner's error marks, as they stand behind the last field of a mark.
local function partners_of(entry)
  local list = {}
  for _, name in ipairs(entry.order) do
    if is_partner(name) then list[#list + 1] = table.concat({ '\31', name }) end
  end
  return table.concat(list)
end

-- Whether an owner has error marks beside its partners.
local function has_fields(entry)
  for name in pairs(entry.fields) do
    if not is_partner(name) then return true end
  end
  return false
end

local function lines_text(fields, order)
  local lines = {}
  for _, field in ipairs(order) do
    if fields[field] then lines[#lines + 1] = table.concat({ field, '\31', fields[field] }) end
  end
  return table.concat(lines, '\n')
end

-- An error mark's version: the first word, decimal.
local function error_version(line)
  local value = tonumber(string.match(string.match(line, '^%S*'), '^%d+$'))
  return value and value <= VERSION_MAX and value or 0
end

-- Collects owners that lose an entry. If no map names such an owner any more and no session holds
-- it, its hash gets a time to live (R2). The hash is dropped instead if that was requested. An
-- entry that was put aside belongs to a lost hash, and keeps no hash.
local function releaser()
  local self, names, keys, known = {}, {}, {}, {}
  -- Read before anything is written, since a key of another type makes the call fail.
  for _, map in ipairs({ DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, EVICT, SESSIONS }) do call('HLEN', KEYS[map]) end
  function self.add(name, key)
    if key ~= KEYS[EVICT] and not known[name] then
      known[name] = true
      names[#names + 1], keys[#keys + 1] = name, key
    end
  end
  -- Releases the owners that none of these maps names.
  function self.write(ttl, maps)
    if #names == 0 then return end
    local named = {}
    for _, map in ipairs(maps) do
      if call('EXISTS', KEYS[map]) == 1 then
        local stored = hmget(KEYS[map], names)
        for i = 1, #names do named[i] = named[i] or stored[i] end
      end
    end
    local lasting, evicts = digits(ttl), call('EXISTS', KEYS[EVICT]) == 1
    for i = 1, #names do
      if named[i] then
      elseif evicts and call('HDEL', KEYS[EVICT], names[i]) == 1 then
        call('UNLINK', keys[i])
      else
        call('PEXPIRE', keys[i], lasting)
      end
    end
  end
  return self
end

-- Whether the snapshot has this number.
local function is_snapshot(wanted) return (call('HGET', KEYS[PART], 'snap') or '0') == wanted end

-- Drops the time of the snapshot's first mark, and its links, once its last mark is gone.
local function end_of_snapshot()
  if call('EXISTS', KEYS[SNAPSHOT]) == 1 then return end
  call('HDEL', KEYS[PART], 'first_saving')
  call('UNLINK', KEYS[LINKS])
end
