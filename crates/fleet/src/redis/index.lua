-- Functions for the index of a node's sessions, a set that lives as long as its last session.
local function index_add(index, session, lifetime)
  redis.call('SADD', index, session)
  if redis.call('PTTL', index) < tonumber(lifetime) then redis.call('PEXPIRE', index, lifetime) end
end
