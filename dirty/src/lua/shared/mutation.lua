-- Shared by the scripts that change one owner, or several owners in one step: mutate.lua and
-- transact.lua. Both name the partition's keys in the same order.
local MAPS, DIRTY, SESSIONS, LAPSED, REQUESTS, BEATS, NOTES, LINKS = 2, 2, 7, 8, 9, 10, 11, 12

-- A mark of at least so many bytes names no more partners. Its further links go into the sorted set
-- of links. So a write of an owner with many partners costs no more than that of one with few.
local MARK_LONG = 256

-- The record, with what all changes of a script share. A connection leads to one process. While a
-- request is on its way, the process can become a replica, and then a master with other data (R14).
local function record_of_change(now, marker_ttl)
  local r = record(KEYS[1])
  if string.match(r.incarnation, '/(%x+)$') ~= history() then
    refuse('UNPREPARED the record was made in another history of the server')
  end
  r.now, r.marker_ttl = now, marker_ttl
  r.last_note = call('HGET', KEYS[1], 'note') or '0-0'
  r.has_sessions = call('EXISTS', KEYS[SESSIONS]) == 1
  return r
end

-- Reads an owner's arguments, from `at` on. Its keys are KEYS from `key_at` on. Returns it, and
-- where the next one begins. The arguments of an owner:
--   - its name in the maps
--   - its condition: "none", "absent" or the version wanted
--   - version and token of the session that writes. Empty for a plain write.
--   - 1 if the session ends with the write, which then only sets, else 0
--   - "=" and the body of its note, or empty
--   - number of changes, number of expected fields, and number of arguments of the load (0 without)
--   - field, operation (set, incr, add, remove, restore, purge) and argument of each change, sorted
--     by field. The argument of "add" is "step floor ceiling".
--   - name of each expected field, and "=" with its value, or "-" if it must not be live
--   - the load: observed marker, whether there was a hash (0 or 1), epoch, complete (0 or 1), number
--     of rows. Then of each row field, stored name, stored value and version.
local function owner_of(at, key_at)
  expect(#ARGV >= at + 7 and KEYS[key_at + 1])
  local condition, note = ARGV[at + 1], ARGV[at + 4]
  local count, expected = number(ARGV[at + 5], 'the number of changes'), number(ARGV[at + 6], 'the number of expected fields')
  local load_size = number(ARGV[at + 7], 'the size of the load')
  local expected_from = at + 8 + 3 * count
  local load_at = expected_from + 2 * expected
  local next = load_at + load_size
  -- Names all of its fields, since Lua copies a table each time it grows.
  local owner = {
    hash_key = KEYS[key_at], marker_key = KEYS[key_at + 1], name = ARGV[at], condition = condition,
    wants_version = condition ~= 'none' and condition ~= 'absent', fence = ARGV[at + 2], closes = ARGV[at + 3] == '1',
    note = note ~= '' and string.sub(note, 2), count = count, expected = expected, from = at + 8, expected_from = expected_from,
    load = nil, session = nil, hash = nil, version = nil, out = nil, base = nil, generation = nil, complete = nil, known = nil,
    live = nil, gone = nil, reads = nil, marked = nil, counters = nil, fields = nil, unlanded = nil, is_reborn = nil, mark_held = nil,
  }
  expect(count > 0 and #ARGV >= next - 1)
  if load_size > 0 then owner.load = load_of(load_at, next - 1) end
  return owner, next
end

-- Why the caller may not write the owner (S1). A session that was not opened or confirmed in this
-- epoch may write once the grace has ended, on condition of the version that it knows (S7).
local function forbidden(owner, r)
  local session = r.has_sessions and session_of(call('HGET', KEYS[SESSIONS], owner.name))
  if owner.fence == '' then return session and { 'held', session.text } end
  expect_hashes(SESSIONS, BEATS)
  session = session or session_of(call('HGET', KEYS[LAPSED], owner.name))
  if not session then return { 'fenced', '' } end
  if table.concat({ session.version, ' ', session.token }) ~= owner.fence then return { 'fenced', session.text } end
  if session.epoch ~= r.epoch then
    if not is_graced(KEYS[1], r) then return { 'grace', r.epoch } end
    if not owner.wants_version then return { 'unconfirmed', r.epoch } end
  end
  owner.session = session
end
local function confirm(owner, r)
  local session = owner.session
  if not session then return end
  if owner.closes then
    call('HDEL', KEYS[SESSIONS], owner.name)
    call('HDEL', KEYS[LAPSED], owner.name)
    call('HDEL', KEYS[REQUESTS], owner.name)
  elseif session.epoch ~= r.epoch then
    local text = session_text(session.version, session.token, r.epoch, session.holder, session.asked, session.name)
    call('HSET', KEYS[SESSIONS], owner.name, text)
    call('HDEL', KEYS[LAPSED], owner.name)
    expect_beats(KEYS[BEATS], session.holder)
    r.has_sessions = true
  end
end

-- The value and the tombstone of each field that the owner changes, then of each that it expects.
-- A field that is only set is not read, if the hash has no tombstones and nothing was loaded.
local function read_cells(owner, reads_all)
  local out, reads_tombstones = owner.out, reads_all or owner.hash and owner.hash.tombstones
  owner.live, owner.gone, owner.reads = {}, {}, {}
  -- The names to read, and for each the list that its cell goes to, and its place there.
  local names, lists, places = {}, {}, {}
  local function read(name, list, i)
    names[#names + 1], lists[#lists + 1], places[#places + 1] = name, list, i
  end
  for i = 1, owner.count + owner.expected do
    local is_change = i <= owner.count
    local field = ARGV[is_change and owner.from + 3 * i - 3 or owner.expected_from + 2 * (i - owner.count) - 2]
    local only_sets = is_change and owner.condition ~= 'absent' and ARGV[owner.from + 3 * i - 2] == 'set'
    owner.reads[i] = not only_sets
    if reads_tombstones or not only_sets then read(field, owner.live, i) end
    if reads_tombstones then read(tombstone(field), owner.gone, i) end
  end
  local cells = owner.hash and hmget(owner.hash_key, names) or {}
  for at, name in ipairs(names) do
    local cell = cells[at]
    if out.drops[name] then cell = false end
    lists[at][places[at]] = out.puts[name] or cell
  end
end

-- The owner as its changes find it: the hash, and the rows that the load adds.
local function meet(owner, r)
  local hash, load = header(owner.hash_key), owner.load
  local kind, mark_number, version
  if not hash or load then kind, mark_number, version = marker(owner.marker_key, r) end
  if load and not proved(load, hash, kind, mark_number, r) then load = nil end
  if hash then version = hash.version end
  local out = changes()
  owner.hash, owner.version, owner.out = hash, version, out
  owner.base, owner.generation, owner.complete = version, r.generation, kind == '-'
  owner.is_reborn = not hash and is_named(MAPS, owner.name)
  if load then
    owner.base, owner.generation, owner.complete, owner.unlanded = merge(load, hash, version, r, owner.hash_key, MAPS, owner.name, owner.is_reborn, out)
  elseif hash then
    owner.generation, owner.complete = hash.generation, hash.complete
  elseif owner.is_reborn and owner.complete then
    owner.unlanded = reborn({}, true, MAPS, owner.name, out)
  end
  owner.known = load ~= nil or owner.complete
  read_cells(owner, owner.unlanded ~= nil)
end

-- The answer that the owner must be loaded first.
local function needs_load(owner, r)
  return { 'load', observed(owner.marker_key, KEYS[1], r), owner.hash and '1' or '0', r.epoch }
end

-- Why the owner does not meet its condition, or must be loaded first.
local function unmet(owner, r)
  if owner.generation < r.generation then return needs_load(owner, r) end -- a suspect hash needs all of its rows
  -- A hash that takes the place of a lost one lands as a whole, so its rows must be known (R16).
  if owner.is_reborn and not owner.known then return needs_load(owner, r) end
  local live, gone = owner.live, owner.gone
  -- A marker alone does not tell the version: in a hot tier that came back older it lies behind
  -- landed data (R14).
  if not owner.known and owner.wants_version and not owner.hash then return needs_load(owner, r) end
  if owner.wants_version and number(owner.condition, 'the wanted version') ~= owner.base then
    return { 'version', digits(owner.base) }
  end
  for i = 1, owner.count + owner.expected do
    if not owner.known and owner.reads[i] and not live[i] and not gone[i] then return needs_load(owner, r) end
  end
  for i = 1, owner.condition == 'absent' and owner.count or 0 do
    if live[i] then return { 'exists', ARGV[owner.from + 3 * i - 3] } end
  end
  for i = 1, owner.expected do
    local at, value = owner.expected_from + 2 * i - 2, live[owner.count + i]
    if ARGV[at + 1] ~= (value and table.concat({ '=', value }) or '-') then return { 'differs', ARGV[at] } end
  end
end

-- A number of at most 15 characters. Lua adds two of them exactly, and compares them exactly with
-- any 64-bit number.
local function small(text)
  return #text <= 15 and (text == '0' or string.find(text, '^%-?[1-9][0-9]*$')) and tonumber(text)
end

-- The sum of a counter, or why there is none.
local function counted(field, op, live, argument)
  local step, floor, ceiling = argument, nil, nil
  if op == 'add' then step, floor, ceiling = string.match(argument, '^(%S+) (%S+) (%S+)$') end
  local small_old, small_step = small(live or '0'), small(step or '')
  if small_old and small_step then
    local new = small_old + small_step
    if floor and (new < tonumber(floor) or new > tonumber(ceiling)) then return nil, { 'bounds', field, live or '0' } end
    return digits(new)
  end
  local old, by = integer(live or '0'), integer(step or '')
  if not old or not in_range(old) then return nil, { 'integer', field } end
  expect(by)
  local new = sum(old, by)
  if not in_range(new) then return nil, { 'overflow', field } end
  if floor and (is_below(new, integer(floor)) or is_below(integer(ceiling), new)) then
    return nil, { 'bounds', field, text_of(old) }
  end
  return text_of(new)
end

-- Computes what the owner's changes write. Returns why they can't be made.
local function plan(owner)
  local out = owner.out
  owner.marked, owner.counters = {}, {}
  for i = 1, owner.count do
    local at = owner.from + 3 * i - 3
    local field, op, argument = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local live, gone, changed = owner.live[i], owner.gone[i], true
    local is_removed = gone and string.sub(gone, 1, 1) == 'r'
    expect(op == 'set' or not owner.closes)
    if op == 'set' then
      put(out, field, argument)
    elseif op == 'incr' or op == 'add' then
      local text, refused = counted(field, op, live, argument)
      if not text then return refused end
      owner.counters[#owner.counters + 1] = text
      put(out, field, text)
    elseif op == 'remove' then
      changed = live
      if live then
        put(out, tombstone(field), table.concat({ 'r', live }))
        drop(out, field)
      end
    elseif op == 'restore' then
      changed = is_removed
      if changed then put(out, field, string.sub(gone, 2)) end
    elseif op == 'purge' then
      if is_named(MAPS, owner.name) then return { 'unlanded' } end
      changed = is_removed
      if changed then put(out, tombstone(field), 'p') end
    else
      expect(false)
    end
    if gone and out.puts[field] then drop(out, tombstone(field)) end
    if changed then owner.marked[#owner.marked + 1] = field end
  end
end

-- Why the owners can't change as they should. The refusal of a further owner names its place.
local function refusal_of(owners, r)
  for w, owner in ipairs(owners) do
    local refused = forbidden(owner, r)
    if not refused then
      meet(owner, r)
      refused = unmet(owner, r) or plan(owner)
    end
    if refused then
      if w == 1 then return refused end
      return { 'partner', digits(w - 1), unpack(refused) }
    end
  end
end

-- The owner's line of the reply. A note gets the next number of the partition.
local function line_of(owner, step, r)
  local fields = #owner.marked
  owner.fields = fields
  local line = { fields > 0 and step.text or digits(owner.base), digits(fields) }
  for i, counter in ipairs(owner.counters) do line[i + 2] = counter end
  if owner.note and fields > 0 then
    local last = tonumber(string.match(step.last_note, '-(%d+)$'))
    local place = table.concat({ r.epoch, '-', digits(last + 1) })
    step.last_note = place
    line[#line + 1] = table.concat({ '@', place })
    local known = owner.known or owner.hash
    local notes = step.notes
    notes[#notes + 1], notes[#notes + 2] = 'n', table.concat({
      step.text, ' ', known and digits(owner.base) or '-', ' ', table.concat(owner.counters, ' '),
      '\31', owner.name, '\31', owner.note })
    put(owner.out, ':n', place)
  end
  return table.concat(line, ' ')
end

-- Adds the fields that must land beside the changed ones.
local function mark_whole(owner)
  if not owner.unlanded or #owner.unlanded == 0 then return end
  local marked, seen = owner.marked, {}
  for _, field in ipairs(marked) do seen[field] = true end
  for _, field in ipairs(owner.unlanded) do
    if not seen[field] then marked[#marked + 1] = field end
  end
end

-- Each write of an owner reads and writes its whole mark. So a long mark takes no further fields until
-- it has landed. The engine in memory has the same number.
local MARK_MAX = 65536
local function expect_room(owner)
  local held = owner.mark_held
  if owner.is_reborn or #held < MARK_MAX then return end
  if #marked_with(held, string.sub(held, 1, 14), owner.marked) > #held then
    refuse(table.concat({ 'BACKLOG the names of the unlanded fields of ', owner.name, ' have reached 65536 B; retry later, once they have landed' }))
  end
end

-- Names a partner of an owner in its mark, or in the set of links if the mark is long.
local function link(owner, partner, step)
  local marked, links = owner.marked, step.links
  if #owner.mark_held < MARK_LONG then
    marked[#marked + 1] = table.concat({ '\30', partner.name })
  else
    marked[#marked + 1] = '\30'
    links[#links + 1], links[#links + 2] = '0', table.concat({ owner.name, '\31', partner.name })
  end
end

-- The step that changes the owners: the owners that change, their version, their notes, and the
-- reply "version changed counters… @note", a line for each owner. Owners that change together land
-- together: the first of them is linked with each of the others, both ways (G1). Writes nothing.
local function step_of(owners, r)
  local changed, newest = {}, 0
  for _, owner in ipairs(owners) do
    if #owner.marked > 0 then
      changed[#changed + 1] = owner
      newest = math.max(newest, owner.base, owner.version)
    end
  end
  local version = math.max(r.source + 2, r.now, newest + 2)
  if #changed > 0 and version > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
  local step = { owners = owners, changed = changed, notes = {}, links = {}, last_note = r.last_note, version = version, text = digits(version), reply = nil }
  local lines = {}
  for w, owner in ipairs(owners) do lines[w] = line_of(owner, step, r) end
  step.reply = table.concat(lines, '\n')
  -- ORDER: the maps are read before anything is written, since one of another type makes the call
  -- fail. If there is no hash, `meet` has read all of them.
  local names = {}
  for i, owner in ipairs(changed) do
    names[i] = owner.name
    mark_whole(owner)
  end
  local held_marks = hmget(KEYS[DIRTY], names)
  for i, owner in ipairs(changed) do
    owner.mark_held = held_marks[i] or ''
    expect_room(owner)
  end
  for i = 2, #changed do
    link(changed[1], changed[i], step)
    link(changed[i], changed[1], step)
  end
  -- Adds nothing, but fails as the later one would: without the right, or if the key is of another type.
  if #step.links > 0 then call('ZADD', KEYS[LINKS], 'XX', '0', '') end
  return step
end

-- ORDER: the stream before all else, since it alone can refuse its entry. Numbers of an entry that
-- was refused are given again. The notes of a step are one entry, at the place of the last of them.
local function write_notes(step, r)
  if #step.notes == 0 then return end
  call('HSET', KEYS[1], 'note', step.last_note)
  local added = redis.pcall('XADD', KEYS[NOTES], step.last_note, unpack(step.notes))
  if type(added) == 'table' and added.err then
    call('HSET', KEYS[1], 'note', r.last_note)
    refuse(string.find(added.err, 'smaller', 1, true) and 'CORRUPT the stream of notes has an entry that no write made' or added.err)
  end
  r.last_note = step.last_note
end

-- Adds the marks, and raises the version source.
local function write_marks(step, r)
  local changed, marks, version = step.changed, {}, mark_text(step.version)
  for _, owner in ipairs(changed) do
    if owner.is_reborn then
      put_aside(MAPS, owner.name)
      owner.mark_held = ''
    end
    marks[#marks + 1], marks[#marks + 2] = owner.name, marked_with(owner.mark_held, version, owner.marked)
  end
  for _, owner in ipairs(changed) do
    if owner.hash and owner.mark_held == '' then call('PERSIST', owner.hash_key) end
  end
  -- ORDER: links before the marks that count on them.
  if #step.links > 0 then call('ZADD', KEYS[LINKS], unpack(step.links)) end
  call('HSET', KEYS[DIRTY], unpack(marks))
  local text, first = step.text, r.first or digits(r.now)
  if #changed > 1 then
    call('HSET', KEYS[1], 'src', text, 'first', first, 'linked', text)
  else
    call('HSET', KEYS[1], 'src', text, 'first', first)
  end
  if not r.first then
    -- As in update.lua: Redis searches the marks of a small map one by one, until the map has held a
    -- long value.
    call('HSET', KEYS[DIRTY], ':', string.rep(':', 65))
    call('HDEL', KEYS[DIRTY], ':')
  end
  r.source, r.first = step.version, first
end

-- Writes a step.
-- ORDER: marks, then record and markers, then data. So no failure in between leaves data without a
-- mark.
local function write_step(step, r)
  -- ORDER: a command that is called nowhere before runs while nothing is written. If the user lacks
  -- the right for it, nothing has changed.
  if #step.changed > 0 and not r.first then call('HDEL', KEYS[DIRTY], ':') end
  write_notes(step, r)
  if #step.changed > 0 then write_marks(step, r) end
  for _, owner in ipairs(step.changed) do
    if not owner.hash then set_marker(owner.marker_key, step.text, r.marker_ttl) end
  end
  for _, owner in ipairs(step.changed) do
    put(owner.out, ':v', head(step.version, owner.generation, owner.complete))
    if owner.is_reborn then put(owner.out, ':b', step.text) end
    write_changes(owner.out, owner.hash_key)
  end
  for _, owner in ipairs(step.owners) do
    confirm(owner, r)
    if owner.fields == 0 and owner.hash and owner.session then call('PERSIST', owner.hash_key) end
  end
end
