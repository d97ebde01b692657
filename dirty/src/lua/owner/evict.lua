#!lua flags=allow-oom
-- Drops a hash whose changes have all landed and that no session holds.
-- Another hash is dropped later, once no map names its owner and no session holds it.
-- KEYS[1] owner hash
-- KEYS[2] owners to evict
-- KEYS[3] dirty map
-- KEYS[4] snapshot
-- KEYS[5] error map
-- KEYS[6] marks on probation
-- KEYS[7] marks whose probation ends
-- KEYS[8] sessions
-- ARGV[1] the owner's name in the maps
-- Reply: 1 if the hash is gone, 0 if it stays for now.
-- Invariant: unlanded data is never dropped (R2).
expect(#KEYS == 8 and #ARGV == 1)
if call('HLEN', KEYS[1]) > 0 and (is_named(3, ARGV[1]) or call('HGET', KEYS[8], ARGV[1])) then
  call('HSET', KEYS[2], ARGV[1], '')
  return 0
end
call('UNLINK', KEYS[1])
return 1
