-- KEYS: lease, nodes. ARGV: node, record.
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return {'ok'}
