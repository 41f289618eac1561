-- KEYS: lease. ARGV: ms. Ends a lease that has at most this time left.
if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[1]) then return {'held'} end
redis.call('DEL', KEYS[1])
return {'ok'}
