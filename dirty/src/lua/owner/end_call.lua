#!lua flags=allow-oom
-- Ends a call of update.lua or transact.lua whose answer was lost, and returns that answer.
-- A call that was not carried out never will be.
-- KEYS[1] partition record
-- ARGV[1] field of the record for the caller's last call
-- ARGV[2] number of the call
-- Reply: the answer, as the script gave it, or "void" if there is none.
-- Invariant: a call is carried out before it is ended, or never (R11). The script fails under
--   another incarnation.
expect(#KEYS == 1 and #ARGV == 2)
present(KEYS[1])
local call_number = number(ARGV[2], 'the number of the call')
local stored = call('HGET', KEYS[1], ARGV[1]) or '0 '
local last, text = string.match(stored, '^(%d+) (.*)$')
if not last then refuse('CORRUPT the last call of a store') end
last = number(last, 'the number of the last call')
if last == call_number then return text end
if last > call_number then refuse('STALE the store has made a later call since') end
call('HSET', KEYS[1], ARGV[1], table.concat({ ARGV[2], ' void' }))
return 'void'
