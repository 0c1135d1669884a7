-- This is the beginning of get.lua, swap.lua and remove.lua.

-- server returns the replication ID, which is unique to one run of a primary: Redis generates a new one when it starts,
-- when a replica is promoted, and when a former primary is promoted again. So an ID beside a time of expiry shows
-- whether this is still the server that accepted that write and every renewal after it. Empty if the user may not call
-- INFO.
local function server()
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return '' end
  return string.match(info, 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)') or ''
end

-- leftover reports whether a key is the election of a member whose register was deleted: its value names an
-- incarnation, and it does not expire.
local function leftover(key, value)
  return type(value) == 'string' and string.match(value, '/%d*%.?' .. string.rep('[A-Z2-7]', 26) .. '$')
    and redis.call('PTTL', key) == -1
end
