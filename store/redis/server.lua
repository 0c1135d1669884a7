-- Begins get.lua, swap.lua and remove.lua.

-- server returns what no other run of a primary has: its replication ID. Redis takes a new one when it starts, when a replica is promoted,
-- and when a former primary is promoted again. So an ID that is written beside a time of expiry tells whether the server that is asked
-- is still the one that took that write, and every renewal after it. Nothing if the user may not call INFO.
local function server()
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return '' end
  return string.match(info, 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)') or ''
end

-- leftover reports whether a key is the seat of a member whose register is gone: it names an incarnation and does not expire, as no lock of
-- somebody else does that could not be waited for.
local function leftover(key, value)
  return type(value) == 'string' and string.match(value, '/%d*%.?' .. string.rep('[A-Z2-7]', 26) .. '$') and redis.call('PTTL', key) == -1
end
