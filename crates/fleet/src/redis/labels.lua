-- KEYS: flow. ARGV: lifetime ms, max labels, then field and value of each label. Returns all values.
local added = 0
for i = 3, #ARGV, 2 do added = added + 1 - redis.call('HEXISTS', KEYS[1], ARGV[i]) end
if redis.call('HLEN', KEYS[1]) + added > tonumber(ARGV[2]) then return {'limit'} end
for i = 3, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'ok', redis.call('HVALS', KEYS[1])}
