-- Removes a register if it has the expected revision and nobody holds it. Returns 1, or nothing if it was not removed.
-- The removal is not published, because nobody waits for a vacant register.
--
-- KEYS: 1 and 2 as in get.lua; 3 the index of names, but not in a cluster
-- ARGV: 1 expected revision; 2 name, with the index
local call = redis.call
local rev, till, stamp, who = string.match(call('GET', KEYS[2]) or ' \n\n', '^(%S*) (%S*) ?(%S*)\n([^\n]*)\n')
if not rev or rev == '' then return false end
if redis.pcall('GET', KEYS[1]) then return false end -- held, perhaps by a program without Regent

if who == '' then
  if rev ~= ARGV[1] then return false end
else -- it must have expired, by the clock of the server that wrote it
  if till == '' or rev .. '!' ~= ARGV[1] then return false end
  local me = server()
  if me ~= '' and me ~= stamp then return false end
  local t = call('TIME')
  if t[1] * 1000 + t[2] / 1000 < tonumber(till) then return false end
end

call('DEL', KEYS[2])
-- A name in the index without a register does no harm, so a user without ZREM may still remove.
if KEYS[3] then redis.pcall('ZREM', KEYS[3], ARGV[2]) end
return 1
