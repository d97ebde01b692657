#!lua flags=allow-oom
-- Writes a note "resync" for each owner whose rows are ahead of notes that were lost.
-- KEYS[1] partition record
-- KEYS[2] notes
-- KEYS[3] lock
-- ARGV[1] token and holder
-- ARGV[2] epoch
-- ARGV[3] 1 if no more leads follow in a later call, else 0
-- ARGV[4..] of each lead the position of the note that the rows are ahead by, and the owner's name
-- Reply: number of notes written. A lead whose note is still there needs none.
-- Invariant: the call fails under another epoch or incarnation, or without the lock.
expect(#KEYS == 3 and #ARGV >= 3 and #ARGV % 2 == 1)
local r = in_epoch(KEYS[1], ARGV[2])
held(KEYS[3], ARGV[1])
local before = call('HGET', KEYS[1], 'note') or '0-0'
local last = tonumber(string.match(before, '-(%d+)$'))
-- Whether the stream has the note of this place.
local function is_there(place)
  local entry = call('XRANGE', KEYS[2], place, '+', 'COUNT', '1')[1]
  return entry and holds(entry, place)
end
local entry, lost = {}, 0
for i = 4, #ARGV, 2 do
  if not is_there(ARGV[i]) then
    entry[#entry + 1], entry[#entry + 2], lost = 'r', ARGV[i + 1], lost + 1
  end
end
if lost > 0 then
  local place = table.concat({ r.epoch, '-', digits(last + lost) })
  call('HSET', KEYS[1], 'note', place)
  local added = redis.pcall('XADD', KEYS[2], place, unpack(entry))
  if type(added) == 'table' and added.err then
    call('HSET', KEYS[1], 'note', before)
    refuse(added.err)
  end
end
if ARGV[3] == '1' then call('HSET', KEYS[1], 'resynced', r.epoch) end
return lost
