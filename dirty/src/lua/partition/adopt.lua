#!lua flags=allow-oom
-- Makes or replaces the partition's record after the database's epoch was raised (R14).
-- KEYS[1] partition record
-- KEYS[2] dirty map
-- KEYS[3] snapshot
-- KEYS[4] error map
-- KEYS[5] marks on probation
-- KEYS[6] marks whose probation ends
-- ARGV[1] incarnation of the record that the caller saw. Empty if there was none.
-- ARGV[2] incarnation of the server that the caller saw
-- ARGV[3] the database's epoch, raised
-- ARGV[4] how far landings reach, according to the database
-- ARGV[5] identity of the database that landings go to from now on. Empty if it is not watched.
-- ARGV[6] 1 if all landed data was collected from this server, or from one that it is a copy of,
--   else 0
-- ARGV[7] 1 if every hash must be compared with its rows in any case, else 0
-- ARGV[8] how far versions leap over those that a hot tier gave before it came back older,
--   microseconds
-- ARGV[9] how far the feed reaches, according to the database, "epoch-number"
-- ARGV[10] stamp of the raise to that epoch
-- ARGV[11] the moment after which another hot tier may have the partition, microseconds
-- Reply: 1 if it did, 0 if record, server or epoch are no longer those that the caller saw, or if it
--   is too late.
-- `landed` becomes the version of the database, even if that is lower: the database lost commits,
-- and only its own data counts.
-- Invariant: the numbers of notes go on above those of the hot tier and of the feed, so a missing
--   number shows that notes were deleted. A number is left out if the hot tier is older than the
--   feed, which can't take its notes any more (F5).
--   No later version is below a landed one, or below that of a write that a rewind forgot.
--   Hashes from before a rewind become suspect. Commits of an earlier epoch that are on probation
--   land again (H33).
expect(#KEYS == 6 and #ARGV == 11)
local epoch, last, leap = number(ARGV[3], 'the epoch'), number(ARGV[4], 'the last version'), number(ARGV[8], 'the leap')
if time() > number(ARGV[11], 'the deadline') then return 0 end
local function leapt(from) return digits(math.min(math.max(time(), from) + leap, VERSION_MAX)) end
local old = call('HMGET', KEYS[1], 'inc', 'epoch', 'gen', 'src', 'landed', 'collected', 'note')
local now_at = incarnation()
if (old[1] or '') ~= ARGV[1] or now_at ~= ARGV[2] then return 0 end
if old[1] then
  if epoch <= number(old[2], 'the epoch') then return 0 end
  local landed, source, collected = number(old[5], 'landed'), number(old[4], 'the version source'), number(old[6] or '0', 'collected')
  -- Landed data that was collected from this server is still here, up to `collected`. So a commit
  -- up to there was not settled, but it is not forgotten. That does not hold if another server may
  -- have given landed data.
  local forgotten = landed < last and not (ARGV[6] == '1' and last <= collected)
  local suspect = forgotten or ARGV[7] == '1'
  local generation = suspect and ARGV[3] or old[3]
  local from = math.max(source, last)
  local begun = suspect and leapt(from) or digits(from)
  call('HSET', KEYS[1], 'inc', now_at, 'epoch', ARGV[3], 'gen', generation, 'src', begun, 'begun', begun, 'landed', ARGV[4])
else
  local begun = last > 0 and leapt(last) or digits(time())
  call('HSET', KEYS[1], 'inc', now_at, 'epoch', ARGV[3], 'gen', ARGV[3], 'src', begun, 'begun', begun, 'landed', digits(last))
  -- Marks that outlived their record may have partners.
  if call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0 then
    call('HSET', KEYS[1], 'linked', '1', 'linked_saving', '1')
  end
end
local function place(text)
  local in_epoch, last = string.match(text, '^(%d+)-(%d+)$')
  return number(in_epoch or '', 'the place of a note'), number(last, 'the place of a note')
end
local hot_epoch, hot_note = place(old[7] or '0-0')
local feed_epoch, feed_note = place(ARGV[9])
local is_older = old[7] and hot_epoch < feed_epoch
local last_note = table.concat({ ARGV[3], '-', digits(math.max(hot_note, feed_note) + (is_older and 1 or 0)) })
call('HSET', KEYS[1], 'note', last_note, 'noted', ARGV[9], 'stamp', ARGV[10])
if is_older then call('HSET', KEYS[1], 'older', last_note) end
if ARGV[5] ~= '' then call('HSET', KEYS[1], 'db', ARGV[5]) end
-- Snapshots of different epochs have different numbers. A copy of Redis can have a snapshot under the
-- number of a later one, which a worker has read (R5). An epoch has room for 2^28 of them.
call('HSET', KEYS[1], 'snap', digits(epoch * 268435456))
-- A late copy of this call, after Redis was emptied, has another time. So its grace is not taken for
-- the one of this call (S8).
call('HSET', KEYS[1], 'adopted', digits(time()))
-- Before the first adoption ever, which has epoch 1, there was no session. Later ones may have been
-- forgotten.
if epoch <= 1 then call('HSET', KEYS[1], 'graced', ARGV[3]) end
if call('EXISTS', KEYS[5], KEYS[6]) > 0 then call('HSET', KEYS[1], 'requeue', '1') end
return 1
