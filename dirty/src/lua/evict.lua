#!lua flags=allow-oom
-- Drops a hash whose changes have all landed; another goes when its last mark is settled.
-- KEYS[1] owner hash
-- Reply: 1 if the hash is gone, 0 if it stays until it has landed.
-- Invariant: what has not landed is never dropped (R2).
expect(#KEYS == 1 and #ARGV == 0)
local marks = call('HGET', KEYS[1], ':n')
if marks and number(marks, ':n') > 0 then
  call('HSET', KEYS[1], ':e', '1')
  return 0
end
call('UNLINK', KEYS[1])
return 1
