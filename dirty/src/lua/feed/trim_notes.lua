#!lua flags=allow-oom
-- Remembers that notes have landed, and drops them if told so.
-- KEYS[1] partition record
-- KEYS[2] notes
-- KEYS[3] lock
-- ARGV[1] token and holder
-- ARGV[2] epoch
-- ARGV[3] position of the last landed note, "epoch-number"
-- ARGV[4] 1 to drop the notes up to there, else 0
-- Reply: number of entries in the stream. An entry goes once all of its notes have landed.
-- Invariant: the call fails under another epoch or incarnation, or without the lock.
expect(#KEYS == 3 and #ARGV == 4)
in_epoch(KEYS[1], ARGV[2])
held(KEYS[3], ARGV[1])
local epoch, last = string.match(ARGV[3], '^(%d+)-(%d+)$')
expect(epoch)
call('HSET', KEYS[1], 'noted', ARGV[3])
if ARGV[4] == '0' then return call('XLEN', KEYS[2]) end
call('XTRIM', KEYS[2], 'MINID', table.concat({ epoch, '-', digits(number(last, 'the number of a note') + 1) }))
local left = call('XLEN', KEYS[2])
-- An empty stream takes memory. The record has the last number.
if left == 0 then call('DEL', KEYS[2]) end
return left
