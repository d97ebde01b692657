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
local lost = {}
for i = 4, #ARGV, 2 do
  if #call('XRANGE', KEYS[2], ARGV[i], ARGV[i]) == 0 then lost[#lost + 1] = ARGV[i + 1] end
end
for _, name in ipairs(lost) do
  last = last + 1
  local place = table.concat({ r.epoch, '-', digits(last) })
  call('HSET', KEYS[1], 'note', place)
  local added = redis.pcall('XADD', KEYS[2], place, 'o', name, 'r', '1')
  if type(added) == 'table' and added.err then
    call('HSET', KEYS[1], 'note', before)
    refuse(added.err)
  end
  before = place
end
if ARGV[3] == '1' then call('HSET', KEYS[1], 'resynced', r.epoch) end
return #lost
