#!lua flags=allow-oom
-- Ends a collection: returns the epoch of the values before it, notes how far they reach, and finds
-- the marks that may name further fields of the owners.
-- KEYS[1] dirty map
-- KEYS[2] snapshot
-- KEYS[3] error map
-- KEYS[4] marks on probation
-- KEYS[5] marks whose probation ends
-- KEYS[6] partition record
-- ARGV[1] number of the snapshot whose marks the caller has read, or -1
-- ARGV[2..] the name of each owner of which fields were read
-- Reply: {epoch, landed, how far the values reach, generation, identity of the database (false if
--   it is not watched), 1 if a mark may have partners, the place of the gap that tells the notes of
--   a hot tier that came back older (false if it never did), 1 if the error map has entries,
--   the stamp of the epoch (false if an older program adopted it)}. Then of each mark that was found:
--   which of the owners it is of, and the mark. An owner that the error map names is found with an
--   empty mark.
-- Invariant: the call fails under another incarnation than the recorded one. So all landed data up
--   to `collected` is here, even if a client that missed a rewind writes later (R14). All maps are
--   read in one step, behind the values: a write since then is found in one of them (R16). Marks on
--   probation count while they are to be requeued.
local DIRTY, SNAPSHOT, ERRORS, LANDED, EXPIRING, PART = 1, 2, 3, 4, 5, 6
expect(#KEYS == PART and #ARGV >= 1)
local r = present(KEYS[PART])
local source = digits(r.source)
local at = call('HMGET', KEYS[PART], 'db', 'linked', 'linked_saving', 'older', 'snap', 'requeue', 'stamp')
local has_errors = call('EXISTS', KEYS[ERRORS]) == 1
local reply = { r.epoch, digits(r.landed), source, digits(r.generation), at[1], (at[2] or at[3]) and 1 or 0, at[4], has_errors and 1 or 0, at[7] }
local names
local function find(map, is_error)
  if #ARGV == 1 or call('EXISTS', KEYS[map]) == 0 then return end
  names = names or { unpack(ARGV, 2) }
  for i, text in ipairs(hmget(KEYS[map], names)) do
    if text then reply[#reply + 1], reply[#reply + 2] = i, is_error and '' or text end
  end
end
find(DIRTY)
if (at[5] or '0') ~= ARGV[1] then find(SNAPSHOT) end
if has_errors then find(ERRORS, true) end
if at[6] then
  find(LANDED)
  find(EXPIRING)
end
call('HSET', KEYS[PART], 'collected', source)
return reply
