#!lua
-- Changes fields of one owner, or of several owners of a partition, in one step. Each owner has its
-- condition, and the load that its changes build on, if they need one.
-- KEYS[1] partition record
-- KEYS[2] operation ids of even windows
-- KEYS[3] operation ids of odd windows
-- KEYS[4] dirty map
-- KEYS[5] snapshot
-- KEYS[6] error map
-- KEYS[7] marks on probation
-- KEYS[8] marks whose probation ends
-- KEYS[9] sessions
-- KEYS[10] lapsed sessions
-- KEYS[11] requests for held owners
-- KEYS[12] beats
-- KEYS[13] notes
-- KEYS[14..] owner hash and exist marker of each owner
-- ARGV[1] operation id
-- ARGV[2] deadline, microseconds since 1970
-- ARGV[3] epoch that the write was sent in. Empty if any epoch will do.
-- ARGV[4] window of operation ids, microseconds
-- ARGV[5..] of each owner:
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
-- Reply: "version changed counters…" as remembered under the id, a line for each owner. Behind it
--   " @epoch-number" is the place of the owner's note. Or
--   {"expired"}, {"moved", epoch, generation}, {"load", marker, whether there is a hash (0 or 1),
--   epoch}, {"version", current}, {"exists", field}, {"differs", field}, {"integer", field},
--   {"overflow", field}, {"bounds", field, value}, {"unlanded"}. Also {"held", session} to a plain
--   write. Also {"fenced", session or ""}, {"grace", epoch}, {"unconfirmed", epoch} to a write of a
--   session. For a further owner, {"partner", its place, ...} with one of the former.
-- Invariant: as in update.lua, for all owners together. No field that a hash does not hold is
--   guessed (R15). The marks of owners that change together name each other, by way of the first of
--   them (G1).
local OWNER_KEYS = 13
local writes = (#KEYS - OWNER_KEYS) / 2
expect(writes >= 1 and writes == math.floor(writes) and #ARGV >= 4 + 11 * writes)
local now, deadline, window = time(), number(ARGV[2], 'the deadline'), number(ARGV[4], 'the window')
local r = record(KEYS[1])
-- A connection leads to one process. While a request is on its way, the process can become a
-- replica, and then a master with other data (R14).
if string.match(r.incarnation, '/(%x+)$') ~= history() then
  refuse('UNPREPARED the record was made in another history of the server')
end

local round = math.floor(now / window)
local ids = KEYS[2 + round % 2]
local seen = call('HMGET', ids, ':w', ARGV[1], ':j')
local before = seen[2] or call('HGET', KEYS[3 - round % 2], ARGV[1])
if before then return before end
-- ORDER: ids before the deadline. So a late repeat of a write that was applied in time learns its
-- outcome.
if now >= deadline then return { 'expired' } end
local seen_round = seen[1] and number(seen[1], 'the window of ids')
if deadline - now > window then refuse('DEADLINE the deadline lies further ahead than ids are remembered') end
-- The hot tier may have forgotten the id since, and later writes.
if ARGV[3] ~= '' and ARGV[3] ~= r.epoch then return { 'moved', r.epoch, digits(r.generation) } end

-- Reads an owner's arguments, from `at` on. Returns it, and where the next one begins.
local function owner_of(w, at)
  expect(#ARGV >= at + 7)
  local owner = { hash_key = KEYS[OWNER_KEYS + 2 * w - 1], marker_key = KEYS[OWNER_KEYS + 2 * w], name = ARGV[at] }
  owner.condition, owner.fence, owner.closes = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] == '1'
  owner.wants_version = owner.condition ~= 'none' and owner.condition ~= 'absent'
  owner.note = ARGV[at + 4] ~= '' and string.sub(ARGV[at + 4], 2)
  owner.count = number(ARGV[at + 5], 'the number of changes')
  owner.expected = number(ARGV[at + 6], 'the number of expected fields')
  local load_size = number(ARGV[at + 7], 'the size of the load')
  owner.from = at + 8
  owner.expected_from = owner.from + 3 * owner.count
  local load_at = owner.expected_from + 2 * owner.expected
  local next = load_at + load_size
  expect(owner.count > 0 and #ARGV >= next - 1)
  if load_size > 0 then owner.load = load_of(load_at, next - 1) end
  return owner, next
end

-- Why the caller may not write the owner (S1). A session that was not opened or confirmed in this
-- epoch may write once the grace has ended, on condition of the version that it knows (S7).
local function forbidden(owner)
  local session = session_of(call('HGET', KEYS[9], owner.name))
  if owner.fence == '' then return session and { 'held', session.text } end
  expect_hashes(9, 12)
  session = session or session_of(call('HGET', KEYS[10], owner.name))
  if not session then return { 'fenced', '' } end
  if table.concat({ session.version, ' ', session.token }) ~= owner.fence then return { 'fenced', session.text } end
  if session.epoch ~= r.epoch then
    if not is_graced(KEYS[1], r) then return { 'grace', r.epoch } end
    if not owner.wants_version then return { 'unconfirmed', r.epoch } end
  end
  owner.session = session
end
local function confirm(owner)
  local session = owner.session
  if not session then return end
  if owner.closes then
    call('HDEL', KEYS[9], owner.name)
    call('HDEL', KEYS[10], owner.name)
    call('HDEL', KEYS[11], owner.name)
  elseif session.epoch ~= r.epoch then
    local text = session_text(session.version, session.token, r.epoch, session.holder, session.asked, session.name)
    call('HSET', KEYS[9], owner.name, text)
    call('HDEL', KEYS[10], owner.name)
    expect_beats(KEYS[12], session.holder)
  end
end

-- Keeps the answer for repeats and late copies, even if there was nothing to change. Otherwise a
-- delayed copy could be applied after later writes.
local window_fields = {}
-- Called before anything else is written.
local function make_room()
  local leaps = tonumber(seen[3]) or 0
  -- Ids of an earlier window are old. They stay if the clock may have leapt, since then they may be
  -- recent (H11).
  local between = seen_round == round - 2 and tonumber(call('HGET', KEYS[3 - round % 2], ':w') or '')
  local is_new = seen_round and seen_round ~= round
  if is_new and between ~= round - 1 and (leaps < 3 or leaps < 100 and call('HLEN', ids) < 10000) then
    window_fields = { ':w', digits(round), ':j', digits(leaps + 1) }
  elseif seen_round ~= round then
    if seen_round then call('UNLINK', ids) end
    window_fields = { ':w', digits(round) }
  end
end
local function remember(reply)
  window_fields[#window_fields + 1], window_fields[#window_fields + 2] = ARGV[1], reply
  call('HSET', ids, unpack(window_fields))
  return reply
end

-- The owner as its changes find it: the hash, and the rows that the load adds. Its cells are the
-- value and the tombstone of each field that it changes, then of each field that it expects.
local function meet(owner)
  local hash = header(owner.hash_key)
  local mark, version = marker(owner.marker_key, r)
  owner.needs_load = { 'load', mark, hash and '1' or '0', r.epoch }
  local load = owner.load
  if load and not proved(load, hash, mark, r) then load = nil end
  if hash then version = hash.version end
  local out = changes()
  owner.hash, owner.version, owner.out = hash, version, out
  owner.base, owner.generation, owner.complete = version, r.generation, mark == '-'
  if load then
    overlay(load, hash, owner.hash_key, r, out)
    owner.base, owner.generation, owner.complete = merged(load, hash, version, r)
  elseif hash then
    owner.generation, owner.complete = hash.generation, hash.complete
  end
  owner.known = load ~= nil or owner.complete
  local names = {}
  for i = 1, owner.count do
    local field = ARGV[owner.from + 3 * i - 3]
    names[2 * i - 1], names[2 * i] = field, tombstone(field)
  end
  for i = 1, owner.expected do
    local field, at = ARGV[owner.expected_from + 2 * i - 2], 2 * (owner.count + i)
    names[at - 1], names[at] = field, tombstone(field)
  end
  local cells = hash and hmget(owner.hash_key, names) or {}
  for i, name in ipairs(names) do
    if out.puts[name] then
      cells[i] = out.puts[name]
    elseif out.drops[name] then
      cells[i] = false
    end
  end
  owner.names, owner.cells = names, cells
end

-- Why the owner does not meet its condition, or must be loaded first.
local function unmet(owner)
  if owner.generation < r.generation then return owner.needs_load end -- a suspect hash needs all of its rows
  local cells, is_absent = owner.cells, owner.condition == 'absent'
  -- A marker alone does not tell the version: in a hot tier that came back older it lies behind
  -- landed data (R14).
  if not owner.known and owner.wants_version and not owner.hash then return owner.needs_load end
  if owner.wants_version and number(owner.condition, 'the wanted version') ~= owner.base then
    return { 'version', digits(owner.base) }
  end
  for i = 1, owner.count + owner.expected do
    local needs = i > owner.count or is_absent or ARGV[owner.from + 3 * i - 2] ~= 'set'
    if not owner.known and needs and not cells[2 * i - 1] and not cells[2 * i] then return owner.needs_load end
  end
  for i = 1, is_absent and owner.count or 0 do
    if cells[2 * i - 1] then return { 'exists', ARGV[owner.from + 3 * i - 3] } end
  end
  for i = 1, owner.expected do
    local at, live = owner.expected_from + 2 * i - 2, cells[2 * (owner.count + i) - 1]
    local wanted = ARGV[at + 1]
    if wanted ~= (live and table.concat({ '=', live }) or '-') then return { 'differs', ARGV[at] } end
  end
end

-- The sum of a counter, or why there is none.
local function counted(field, op, live, argument)
  local step, floor, ceiling = argument, nil, nil
  if op == 'add' then step, floor, ceiling = string.match(argument, '^(%S+) (%S+) (%S+)$') end
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
  local out, names, cells = owner.out, owner.names, owner.cells
  owner.marked, owner.counters = {}, {}
  for i = 1, owner.count do
    local at = owner.from + 3 * i - 3
    local field, op, argument = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local live, gone, changed = cells[2 * i - 1], cells[2 * i], true
    expect(op == 'set' or not owner.closes)
    if op == 'set' then
      out.put(field, argument)
      out.drop(names[2 * i])
    elseif op == 'incr' or op == 'add' then
      local text, refused = counted(field, op, live, argument)
      if not text then return refused end
      owner.counters[#owner.counters + 1] = text
      out.put(field, text)
      out.drop(names[2 * i])
    elseif op == 'remove' then
      changed = live
      if live then
        out.put(names[2 * i], table.concat({ 'r', live }))
        out.drop(field)
      end
    elseif op == 'restore' then
      changed = gone and string.sub(gone, 1, 1) == 'r'
      if changed then
        out.put(field, string.sub(gone, 2))
        out.drop(names[2 * i])
      end
    elseif op == 'purge' then
      if is_named(4, owner.name) then return { 'unlanded' } end
      changed = gone and string.sub(gone, 1, 1) == 'r'
      if changed then out.put(names[2 * i], 'p') end
    else
      expect(false)
    end
    if changed then owner.marked[#owner.marked + 1] = field end
  end
end

local owners, changed, at = {}, {}, 5
for w = 1, writes do
  owners[w], at = owner_of(w, at)
end
expect(at == #ARGV + 1)
local newest = 0
for w, owner in ipairs(owners) do
  local refused = forbidden(owner)
  if not refused then
    meet(owner)
    refused = unmet(owner) or plan(owner)
  end
  if refused then
    if w == 1 then return refused end
    return { 'partner', digits(w - 1), unpack(refused) }
  end
  if #owner.marked > 0 then
    changed[#changed + 1] = owner
    newest = math.max(newest, owner.base, owner.version)
  end
end
local new = math.max(r.source + 2, now, newest + 2)
if #changed > 0 and new > VERSION_MAX then refuse('CORRUPT the version source has reached 2^53') end
local lines, notes, last_note = {}, {}, call('HGET', KEYS[1], 'note') or '0-0'
local note_number = tonumber(string.match(last_note, '-(%d+)$'))
for w, owner in ipairs(owners) do
  owner.fields = #owner.marked
  local line = { digits(owner.fields > 0 and new or owner.base), digits(owner.fields) }
  for _, counter in ipairs(owner.counters) do line[#line + 1] = counter end
  if owner.note and owner.fields > 0 then
    note_number = note_number + 1
    owner.place = table.concat({ r.epoch, '-', digits(note_number) })
    line[#line + 1] = table.concat({ '@', owner.place })
    local known = owner.known or owner.hash
    notes[#notes + 1] = { owner.place, 'o', owner.name, 'v', digits(new), 'w', known and digits(owner.base) or '',
      'c', table.concat(owner.counters, ' '), 'b', owner.note }
    owner.out.put(':n', owner.place)
  end
  lines[w] = table.concat(line, ' ')
end
local reply = table.concat(lines, '\n')
-- ORDER: the maps are read before anything is written, since one of another type makes the call
-- fail.
for _, owner in ipairs(owners) do
  owner.is_reborn, owner.mark_held = not owner.hash and is_named(4, owner.name), call('HGET', KEYS[4], owner.name) or ''
end
-- Owners that change together land together (G1).
for i = 2, #changed do
  local hub, other = changed[1], changed[i]
  hub.marked[#hub.marked + 1] = table.concat({ '\30', other.name })
  other.marked[#other.marked + 1] = table.concat({ '\30', hub.name })
end
make_room()
-- ORDER: the stream first, since it alone can refuse its entries. A number of an entry that was
-- refused is given again.
if #notes > 0 then
  call('HSET', KEYS[1], 'note', notes[#notes][1])
  for _, entry in ipairs(notes) do
    local added = redis.pcall('XADD', KEYS[13], unpack(entry))
    if type(added) == 'table' and added.err then
      call('HSET', KEYS[1], 'note', last_note)
      refuse(string.find(added.err, 'smaller', 1, true) and 'CORRUPT the stream of notes has an entry that no write made' or added.err)
    end
  end
end

if #changed > 0 then
  if not r.first then call('HDEL', KEYS[4], ':') end
  local marks = {}
  for _, owner in ipairs(changed) do
    if owner.is_reborn then
      put_aside(4, owner.name)
      owner.mark_held = ''
    end
    marks[#marks + 1], marks[#marks + 2] = owner.name, marked_with(owner.mark_held, new, owner.marked)
  end
  for _, owner in ipairs(changed) do
    if owner.hash and owner.mark_held == '' then call('PERSIST', owner.hash_key) end
  end
  -- ORDER: marks, then record and markers, then data, then id. So no failure in between leaves data
  -- without a mark.
  call('HSET', KEYS[4], unpack(marks))
  call('HSET', KEYS[1], 'src', digits(new), 'first', r.first or digits(now))
  if #changed > 1 then call('HSET', KEYS[1], 'linked', digits(new)) end
  if not r.first then
    -- As in update.lua: Redis searches the marks of a small map one by one, until the map has held a
    -- long value.
    call('HSET', KEYS[4], ':', string.rep(':', 65))
    call('HDEL', KEYS[4], ':')
  end
  for _, owner in ipairs(changed) do
    if not owner.hash then call('SET', owner.marker_key, digits(new)) end
  end
  for _, owner in ipairs(changed) do
    owner.out.put(':v', head(new, owner.generation, owner.complete))
    if owner.is_reborn then owner.out.put(':b', digits(new)) end
    owner.out.write(owner.hash_key)
  end
end
for _, owner in ipairs(owners) do
  confirm(owner)
  if owner.fields == 0 and owner.hash and owner.session then call('PERSIST', owner.hash_key) end
end
return remember(reply)
