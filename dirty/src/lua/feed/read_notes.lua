#!lua flags=no-writes,allow-oom
-- Reads notes of a partition in their order.
-- KEYS[1] partition record
-- KEYS[2] notes
-- ARGV[1] position to read after, "epoch-number"
-- ARGV[2] the most notes
-- ARGV[3] the most bytes of names and bodies. A first note comes in any case.
-- Reply: {epoch, position of the last note that was ever written, 1 if lost leads were looked for in
--   this epoch, 1 if more notes follow}, then of each note {position, names and values}.
-- Invariant: all is of one moment. The call fails under another incarnation.
expect(#KEYS == 2 and #ARGV == 3)
local STEP = 4 -- entries of one look, each with the notes of a call
local most, bytes_left = number(ARGV[2], 'the number of notes'), number(ARGV[3], 'the number of bytes')
local r = present(KEYS[1])
local at = call('HMGET', KEYS[1], 'note', 'resynced')
local reply, after, more = { r.epoch, at[1] or '0-0', at[2] == r.epoch and 1 or 0 }, ARGV[1], false
local after_epoch, after_number = string.match(after, '^(%d+)-(%d+)$')
after_number = number(after_number, 'the number of a note')
local count = 0
-- Adds the notes of an entry that lie behind `after`. The first entry may begin before that.
local function add(entry)
  local epoch, first, last = span(entry)
  local from = epoch == after_epoch and math.max(first, after_number + 1) or first
  for at_number = from, last do
    local i = 2 * (at_number - first)
    local name, text = entry[2][i + 1], entry[2][i + 2]
    bytes_left = bytes_left - #text
    if count == most or count > 0 and bytes_left < 0 then
      more = true
      return
    end
    count = count + 1
    reply[4 + count] = { table.concat({ epoch, '-', digits(at_number) }), { name, text } }
  end
  after = entry[1]
end
repeat
  local step = math.min(STEP, most - count + 1)
  local entries = call('XRANGE', KEYS[2], table.concat({ '(', after }), '+', 'COUNT', step)
  for _, entry in ipairs(entries) do
    add(entry)
    if more then break end
  end
until more or #entries < step
reply[4] = more and 1 or 0
return reply
