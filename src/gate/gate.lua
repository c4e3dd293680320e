-- gate.lua: L1, the gate, inside Valkey: one step of one pool, atomic because a script is.
--
-- Gives the answers of pool.cc, number for number: tests/valkey plays random histories and
-- tests/vectors on both. pool.h says what the operations mean; docs/protocol.md lists keys,
-- records, arguments and replies. What to know before changing a line:
--   * Lua counts in doubles: everything is a whole number below 2^53 (limits.h sees to that),
--     divided by (a - a % b) / b, which is exact and floors. Records hold doubles as such; where a
--     number becomes text it is by %.0f, or by the server, which writes numbers that are arguments
--     of a command with all their digits ('..' keeps 14).
--   * Strings are compared by their bytes: '<' on strings would ask the server's locale.
--   * Nothing is written before the arguments are read: an error leaves the pool as it was.
--   * Each call into the server costs as much as a page of arithmetic, each number made text as
--     much as a line, and each function and captured local made here is made anew at every call.
--     So the pool is one record, read at once and written at once; the head is remembered from
--     step to step; sorted sets are looked through only when something can be due; the usual
--     acquire and settle are written out in a row, and what is less usual (`more`) is made when
--     first needed.
--   * Every sorted set holds the member '' for ever, so that no key of the set vanishes by being
--     empty: a key that is missing was lost, and with it the pool.
-- The first line, with the script's flags, is put before this text by script.cc.
local call, pack, unpack_record = redis.call, struct.pack, struct.unpack
local format, sub = string.format, string.sub
local max, min = math.max, math.min
local POOL, DUE, ORDER, INDEX = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local FORMAT = '1'  -- Major version of what is stored.
local MICRO = 1000000
local NEVER = 9007199254740992  -- 2^53; also "no moment".
local AWAY_AFTER = 10000000     -- All times in microseconds.
local LAPSE_AFTER = 2000000
local HEAD_START_OF_SIZE = 15000000
local WAITED_LONG = 2000000
local PROBE_EVERY = 60000000
local ENTRY_AGES = 3000000      -- Of a shim that is seen: its entry in INDEX moves only then.
local WINDOW = 10000000
local TOKENS_MAX = 1000000000
local USAGE_MAX = 100000000
local WEIGHT_MAX = 20000000
local DEBT_MAX = 4000000000000000
local WAIT_MAX = 1000000000000000
local HOLD_MAX = 3600000000
local SENIORITY_MAX = 300000000
local HEAD_START_MAX = 300000000
local TTL_MIN = 1000000
local TTL_MAX = 600000000
local PAUSE_MAX = 604800000000
local RENEW_MAX = 100
local RENEW_FIELDS = 7
local LIFETIME_S = 1209600        -- Of every key: twice the longest pause.
local REFRESH_EVERY = 3600000000  -- And is begun anew.

-- Fields of the records, for struct.pack; d is a double.
local RING = '<dddddddd'       -- The seven counts, the window that they are of.
local LEASE = '<c1ddddddddd'   -- 'L', estimate, charge, output, cached and output weight, rebuilt,
                               -- since, ttl, length of the shim's name; then shim, alias.
local WAITER = '<c1ddddddddd'  -- 'W', score, charge, estimate, output, cached and output weight,
                               -- registered, reserves, length of the shim's name; then shim, alias.
local TOMB = '<c1d'            -- 'E', until.
local SHIM = '<c1ddddddddddd'  -- 'L'ive, 'D'ead or 'F'orgotten (kept for its calls), withheld,
                               -- withheld_until, leases, waiters, seen, entry, window, admitted,
                               -- past, front_score, length of front; then front, older admissions.
-- The state is its mark (the format; 's' for the store's clock, 't' for a test's), the numbers that
-- are read below, a ring, and the names of the head, its shim, and of the wake last told.
local STATE = '<c2dddddddddddddddddddddddddddddddddddddddddddd'

-- DUE has every call once, by its deadline counted from the pool's origin, each kind in a range of
-- its own: leases from 0 on, waiters from 2^51, ended ids from 2^52.
local WAITING = 2251799813685248
local ENDED = 4503599627370496

-- Counts of a ring.
local ADMITTED, LONG, HELD, TIMEOUTS, ACCEPTED, OVERLOADS, RELEASED = 1, 2, 3, 4, 5, 6, 7

local op, given = ARGV[1], ARGV[2]

local function fail(code, text) error({err = code .. ' ' .. text}) end

-- A number from outside, cut to its range (not a number: the least).
local function cut(text, least, most)
  local x = tonumber(text)
  if not x then error({err = 'HGARG "' .. tostring(text) .. '" should be a number'}) end
  if not (x > least) then return least end
  if x >= most then return most end
  return x - x % 1
end

-- Until `need` micro-units are there, at a rate per microsecond.
local function token_wait(need, level, rate)
  local missing = need - level
  if missing <= 0 then return 0 end
  if (missing - missing % rate) / rate >= 1000000000000000 then return 1000000000000000 end
  return (missing + -missing % rate) / rate
end

-- The same at a rate per second, of which `rest` millionths are there beside the level.
local function request_wait(need, level, rest, rate)
  local missing = need - level
  if missing <= 0 then return 0 end
  local whole = (missing - missing % rate) / rate
  if whole >= 1000000000 then return 1000000000000000 end
  local part = missing % rate * 1000000 - rest
  local wait = whole * 1000000 + (part + -part % rate) / rate
  return wait > 0 and wait or 0
end

-- A rate, less what is withheld for shims that vanished.
local function less(rate, withheld)
  local x = rate * (1000000 - math.min(withheld, 900000))
  return math.max((x - x % 1000000) / 1000000, 1)
end

local function parse_shim(text)
  local state, withheld, withheld_until, leases, waiters, seen, entry, window, admitted, past,
    front_score, front_length, at = struct.unpack('<c1ddddddddddd', text)
  return {state = state, withheld = withheld, withheld_until = withheld_until, leases = leases,
          waiters = waiters, seen = seen, entry = entry, window = window, admitted = admitted,
          past = past, front_score = front_score,
          front = string.sub(text, at, at + front_length - 1),
          older = string.sub(text, at + front_length)}
end

-- The queue: what a step needs as soon as somebody waits. ORDER has all waiters by score. INDEX
-- has, as text that sorts:
--   'L', a shim's name with its length before it, score, id: who of that shim's waiters reserves
--   'F', score, id: the first of these of each living shim; the first of all is the head
--   'V' or 'D', moment, name: living shims, seen then or later, and dead ones, seen then
--   'W', moment, name: until when is withheld what a shim that vanished may draw
local function make_queue(p)
  local call, pack, sub, max, min = redis.call, struct.pack, string.sub, math.max, math.min
  local POOL, ORDER, INDEX = KEYS[1], KEYS[3], KEYS[4]
  local MOVED = 4503599627370496
  -- Records of calls that were made in this step (false: none is left), but that of p.id.
  local q = {calls = {}}

  function q.read_call(id)
    if id == p.id then return p.call end
    local text = q.calls[id]
    if text == nil then text = call('HGET', POOL, 'call:' .. id) end
    return text
  end

  function q.parse_waiter(id, text)
    local _, score, charge, estimate, output, cached, output_weight, registered, reserves, length,
      at = struct.unpack('<c1ddddddddd', text)
    return {id = id, score = score, charge = charge, estimate = estimate, output = output,
            cached = cached, output_weight = output_weight, registered = registered,
            reserves = reserves, shim = sub(text, at, at + length - 1),
            alias = sub(text, at + length)}
  end

  -- Whether (score, id) comes before (other_score, other), by the bytes of the ids.
  function q.comes_before(score, id, other_score, other)
    if score ~= other_score then return score < other_score end
    local at = 1
    local mine, its = string.byte(id, at), string.byte(other, at)
    while mine and mine == its do
      at = at + 1
      mine, its = string.byte(id, at), string.byte(other, at)
    end
    if mine and its then return mine < its end
    return its ~= nil
  end

  -- The first entry of a kind, or of a shim's line.
  function q.first_of(prefix)
    return call('ZRANGE', INDEX, '[' .. prefix, '(' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, 1)[1]
  end

  function q.find_head()
    p.head_known, p.head_id = true, nil
    local first = q.first_of('F')
    if not first then return end
    local w = q.parse_waiter(sub(first, 10), q.read_call(sub(first, 10)))
    p.head_id, p.head_shim, p.head_score = w.id, w.shim, w.score
    p.head_charge, p.head_estimate, p.head_output = w.charge, w.estimate, w.output
  end

  -- A waiter goes into the line of its shim, of which it may become the front.
  function q.into_line(w, s)
    local rank = pack('>I8', w.score + MOVED) .. w.id
    local line = 'L' .. #w.shim .. ':' .. w.shim .. rank
    if s.front ~= '' and not q.comes_before(w.score, w.id, s.front_score, s.front) then
      call('ZADD', INDEX, 0, line)
      return
    end
    local old = 'F' .. pack('>I8', s.front_score + MOVED) .. s.front
    if s.front ~= '' and s.state == 'L' then call('ZREM', INDEX, old) end
    s.front, s.front_score, s.changed = w.id, w.score, true
    if s.state == 'L' then
      call('ZADD', INDEX, 0, line, 0, 'F' .. rank)
      p.head_known = false
    else
      call('ZADD', INDEX, 0, line)
    end
  end

  function q.out_of_line(w, s)
    local rank = pack('>I8', w.score + MOVED) .. w.id
    local prefix = 'L' .. #w.shim .. ':' .. w.shim
    if s.front ~= w.id then
      call('ZREM', INDEX, prefix .. rank)
      return
    end
    call('ZREM', INDEX, prefix .. rank, 'F' .. rank)
    local first = q.first_of(prefix)
    s.front, s.changed = '', true
    if first then
      rank = sub(first, #prefix + 1)
      s.front_score, s.front = struct.unpack('>I8', rank) - MOVED, sub(rank, 9)
      if s.state == 'L' then call('ZADD', INDEX, 0, 'F' .. rank) end
    end
    if w.id == p.head_id then p.head_known = false end
  end

  -- Out of the queue; what becomes of its record and of its entry in DUE is the caller's.
  function q.take_waiter(w, s)
    call('ZREM', ORDER, w.id)
    if w.reserves == 1 then q.out_of_line(w, s) end
    p.waiters = p.waiters - 1
    p.wait_charge = p.wait_charge - w.charge
    p.wait_estimate = p.wait_estimate - w.estimate
    p.wait_output = p.wait_output - w.output
    s.waiters, s.changed = s.waiters - 1, true
  end

  -- The wait until admission of a call that stands at `place`. Sums are those of all waiters.
  function q.predicted_wait(charge, estimate, output, place)
    local count = p.waiters
    local function ahead(sum)
      if count == 0 then return 0 end
      return min((sum - sum % count) / count * place, 1000000000)
    end
    local wait = p.token_wait((ahead(p.wait_charge) + min(charge, p.c_burst)) * 1000000, p.tokens,
                              p.rate)
    wait = max(wait, p.request_wait((min(place, 1000000) + 1) * 1000000, p.requests, p.rest,
                                    p.request_rate))
    local needed = p.inflight + ahead(p.wait_estimate) + min(estimate, p.k_inflight) - p.k_inflight
    if needed > 0 then
      local released = min(p.released_lately, 1000000000)
      local release_wait = 5000000
      local most = released * 5000000
      if needed <= (most - most % 60000000) / 60000000 then
        local x = needed * 60000000
        release_wait = min((x + -x % released) / released, 5000000)
      end
      wait = max(wait, release_wait)
    end
    if p.c_out > 0 then
      local output_needed = ahead(p.wait_output) + min(output, p.c_out)
      wait = max(wait, p.token_wait(output_needed * 1000000, p.out, p.out_rate))
    end
    return wait
  end

  return q
end

-- What most steps do not need: records of others, shims that come and go, what is due.
local function make_more(p, q, parse_shim)
  local call, pack, unpack_record = redis.call, struct.pack, struct.unpack
  local format, sub = string.format, string.sub
  local POOL, DUE, ORDER, INDEX = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  local RING, LEASE, WAITER = '<dddddddd', '<c1ddddddddd', '<c1ddddddddd'
  local KEY, MOVED = '>I8', 4503599627370496
  local WAITING, ENDED = 2251799813685248, 4503599627370496
  local SWEEP_MAX = 100  -- Of each kind a step, so that no step is long.
  local SHIMS_READ = 1000
  local SHIM_LIVES, SHIM_KEPT = 6000000, 660000000
  local WITHHELD_FOR, WITHHELD_PPM = 600000000, 900000
  local WINDOWS_KEPT, RELEASE_WINDOWS = 30, 6
  local ALIASES_MAX = 1000
  local TIMEOUTS, RELEASED = 4, 7
  local m = {}
  -- Shims (written if changed) and rings of aliases that were read or made in this step, but those
  -- of the asker itself, which stand in p.
  local calls, shims, rings = q.calls, {}, {}
  m.shims, m.rings = shims, rings

  m.batch = {}  -- For HSET.
  function m.put(field, value)
    m.batch[#m.batch + 1] = field
    m.batch[#m.batch + 1] = value
  end

  local function key_of(number) return pack(KEY, number + MOVED) end

  -- A window that is over goes to the older ones, of which those of five minutes are kept.
  function m.close_ring(ring, older)
    for i = 1, 7 do
      if ring[i] ~= 0 then
        older = older .. format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f;', ring[8], ring[1],
                                ring[2], ring[3], ring[4], ring[5], ring[6], ring[7])
        break
      end
    end
    for i = 1, 7 do ring[i] = 0 end
    ring[8] = p.index
    while older ~= '' do
      local oldest, next_at = string.match(older, '^(%S+)[^;]*;()')
      if oldest + 0 > p.index - WINDOWS_KEPT then break end
      older = sub(older, next_at)
    end
    return older
  end

  function m.close_window()
    local older = m.close_ring(p.window, call('HGET', POOL, 'windows'))
    p.past_admitted, p.released_lately = 0, 0
    local entry = '(%S+) (%S+) %S+ %S+ %S+ %S+ %S+ (%S+);'
    for index, admitted, released in string.gmatch(older, entry) do
      p.past_admitted = p.past_admitted + admitted
      if index + 0 >= p.index - RELEASE_WINDOWS then
        p.released_lately = p.released_lately + released
      end
    end
    p.windows = older
    m.put('windows', older)
  end

  -- `text`: its record, if it was read already; false: there is none.
  function m.ring_of(alias, text)
    if alias == p.alias and p.ring then return p.ring end
    local ring = rings[alias]
    if ring then return ring end
    if text == nil then text = call('HGET', POOL, 'alias:' .. alias) end
    if text then
      ring = {unpack_record(RING, text)}
      if ring[8] ~= p.index then
        ring.older = m.close_ring(ring, call('HGET', POOL, 'past:' .. alias) or '')
        m.put('past:' .. alias, ring.older)
      end
    elseif p.alias_count >= ALIASES_MAX and alias ~= 'other' then
      return m.ring_of('other')
    else
      p.alias_count = p.alias_count + 1
      ring = {0, 0, 0, 0, 0, 0, 0, p.index}
    end
    rings[alias] = ring
    return ring
  end

  -- Admissions are counted by windows; those of the last five minutes are kept.
  function m.close_shim(s)
    if s.admitted > 0 then s.older = s.older .. format('%.0f:%.0f ', s.window, s.admitted) end
    local kept = ''
    s.admitted, s.past, s.window = 0, 0, p.index
    for window, count in string.gmatch(s.older, '(%S+):(%S+) ') do
      if window + 0 > p.index - WINDOWS_KEPT then
        kept = kept .. window .. ':' .. count .. ' '
        s.past = s.past + count
      end
    end
    s.older = kept
  end

  function m.shim_of(name, text)
    if name == p.shim then return p.s end
    local s = shims[name]
    if s then return s end
    if text == nil then text = call('HGET', POOL, 'shim:' .. name) end
    if text then
      s = parse_shim(text)
      if s.window ~= p.index then m.close_shim(s) end
    else
      s = {state = 'F', withheld = 0, withheld_until = 0, leases = 0, waiters = 0, seen = 0,
           entry = 0, window = p.index, admitted = 0, past = 0, front_score = 0, front = '',
           older = ''}
    end
    shims[name] = s
    return s
  end

  function m.share_of(s)
    local all = p.past_admitted + p.window[1]
    if all == 0 or s.state == 'F' then return 0 end
    local x = (s.past + s.admitted) * 1000000
    return (x - x % all) / all
  end

  -- --- Waiters ---------------------------------------------------------------------------------

  local function front_entry(s) return 'F' .. key_of(s.front_score) .. s.front end

  function m.set_reserves(w, reserves)
    if w.reserves == reserves then return end
    w.reserves = reserves
    calls[w.id] = pack(WAITER, 'W', w.score, w.charge, w.estimate, w.output, w.cached,
                       w.output_weight, w.registered, reserves, #w.shim) .. w.shim .. w.alias
    local s = m.shim_of(w.shim)
    if reserves == 1 then q.into_line(w, s) else q.out_of_line(w, s) end
  end

  function m.drop_waiter(w, timed_out)
    q.take_waiter(w, m.shim_of(w.shim))
    call('ZREM', DUE, w.id)
    calls[w.id] = false
    if timed_out then
      local ring = m.ring_of(w.alias)
      ring[TIMEOUTS], p.window[TIMEOUTS] = ring[TIMEOUTS] + 1, p.window[TIMEOUTS] + 1
    end
  end

  -- --- Shims -----------------------------------------------------------------------------------

  function m.due(at)
    if at < p.next_sweep then p.next_sweep = at end
  end

  local function give_back_share(name, s)
    if s.withheld == 0 then return end
    call('ZREM', INDEX, 'W' .. key_of(s.withheld_until) .. name)
    p.withheld = p.withheld - s.withheld
    s.withheld, s.changed = 0, true
  end

  local function move_entry(name, s)
    call('ZREM', INDEX, 'V' .. key_of(s.entry) .. name)
    call('ZADD', INDEX, 0, 'V' .. key_of(s.seen) .. name)
    s.entry, s.changed = s.seen, true
  end

  -- Seen now: alive, and nothing is withheld for it any more.
  function m.seen(name, s)
    s.seen, s.changed = p.now, true
    if s.state == 'L' then
      if p.now - s.entry >= 3000000 then move_entry(name, s) end
      return
    end
    if s.state == 'D' then
      call('ZREM', INDEX, 'D' .. key_of(s.entry) .. name)
    else
      p.shim_count = p.shim_count + 1
    end
    call('ZADD', INDEX, 0, 'V' .. key_of(p.now) .. name)
    m.due(p.now + SHIM_LIVES)
    s.state, s.entry = 'L', p.now
    give_back_share(name, s)
    if s.front ~= '' then
      call('ZADD', INDEX, 0, front_entry(s))
      p.head_known = false
    end
  end

  local function no_longer_live(name, s)
    call('ZREM', INDEX, 'V' .. key_of(s.entry) .. name)
    call('ZADD', INDEX, 0, 'D' .. key_of(s.seen) .. name)
    m.due(s.seen + SHIM_KEPT)
    s.state, s.entry, s.changed = 'D', s.seen, true
    if s.front ~= '' then
      call('ZREM', INDEX, front_entry(s))
      p.head_known = false
    end
  end

  function m.farewell(name, s)
    if s.state == 'F' then return end
    give_back_share(name, s)
    if s.state == 'L' then no_longer_live(name, s) end
  end

  -- Names of shims, and what they are sorted by.
  function m.shims_in(kind, until_at, most)
    local top = until_at and '(' .. kind .. key_of(until_at + 1) or '(' .. kind .. '\255'
    local entries = call('ZRANGE', INDEX, '[' .. kind, top, 'BYLEX', 'LIMIT', 0, most)
    for i, entry in ipairs(entries) do entries[i] = sub(entry, 10) end
    return entries
  end

  -- Living shims that were not seen for too long. Their entries in INDEX are up to 3 s older than
  -- that, so that few who were seen stand among them; more than SHIMS_READ are not looked at in one
  -- step (and then not always in the order in which they fell silent, as in memory).
  local function silent_shims()
    local silent = {}
    for _, name in ipairs(m.shims_in('V', p.now - SHIM_LIVES, SHIMS_READ)) do
      local s = m.shim_of(name)
      if s.seen + SHIM_LIVES > p.now then
        move_entry(name, s)
      else
        silent[#silent + 1] = name
      end
    end
    if #silent > SWEEP_MAX then
      table.sort(silent, function(left, right)
        return q.comes_before(m.shim_of(left).seen, left, m.shim_of(right).seen, right)
      end)
    end
    return silent
  end

  -- --- What happens by itself ------------------------------------------------------------------

  local function due_in(kind)
    return call('ZRANGE', DUE, format('%.0f', kind), format('%.0f', kind + p.now - p.origin),
                'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
  end

  function m.forget_ended()
    local ids = due_in(ENDED)
    if not ids[1] then return end
    call('ZREM', DUE, unpack(ids))
    for _, id in ipairs(ids) do calls[id] = false end
  end

  function m.sweep()
    for _, id in ipairs(due_in(0)) do
      local text = q.read_call(id)
      local _, estimate, _, _, _, _, _, _, _, length, at = unpack_record(LEASE, text)
      local ring = m.ring_of(sub(text, at + length))
      ring[RELEASED] = ring[RELEASED] + estimate
      p.window[RELEASED] = p.window[RELEASED] + estimate
      p.leases, p.inflight = p.leases - 1, p.inflight - estimate
      local s = m.shim_of(sub(text, at, at + length - 1))
      s.leases, s.changed = s.leases - 1, true
      call('ZREM', DUE, id)
      calls[id] = false
    end
    for _, id in ipairs(due_in(WAITING)) do
      m.drop_waiter(q.parse_waiter(id, q.read_call(id)), true)
    end
    for i, name in ipairs(silent_shims()) do
      if i > SWEEP_MAX then break end
      local s = m.shim_of(name)
      if s.leases > 0 or s.waiters > 0 then
        local x = m.share_of(s) * WITHHELD_PPM
        s.withheld = (x - x % 1000000) / 1000000
        if s.withheld > 0 then
          s.withheld_until = p.now + WITHHELD_FOR
          call('ZADD', INDEX, 0, 'W' .. key_of(s.withheld_until) .. name)
          p.withheld = p.withheld + s.withheld
        end
      end
      no_longer_live(name, s)
    end
    m.forget_ended()
    for _, name in ipairs(m.shims_in('W', p.now, SWEEP_MAX)) do
      give_back_share(name, m.shim_of(name))
    end
    for _, name in ipairs(m.shims_in('D', p.now - SHIM_KEPT, SWEEP_MAX)) do
      local s = m.shim_of(name)
      give_back_share(name, s)
      call('ZREM', INDEX, 'D' .. key_of(s.entry) .. name)
      p.shim_count = p.shim_count - 1
      s.state, s.admitted, s.past, s.older, s.changed = 'F', 0, 0, '', true
    end
    -- Ended ids are forgotten when it suits: nobody sees the difference.
    p.next_sweep = 9007199254740992
    local first = call('ZRANGE', DUE, 0, '(' .. format('%.0f', WAITING), 'BYSCORE', 'LIMIT', 0, 1,
                       'WITHSCORES')
    if first[1] then m.due(first[2] + p.origin) end
    first = call('ZRANGE', DUE, format('%.0f', WAITING), '(' .. format('%.0f', ENDED), 'BYSCORE',
                 'LIMIT', 0, 1, 'WITHSCORES')
    if first[1] then m.due(first[2] - WAITING + p.origin) end
    for kind, later in pairs({V = SHIM_LIVES, W = 0, D = SHIM_KEPT}) do
      local entry = q.first_of(kind)
      if entry then m.due(unpack_record(KEY, entry, 2) - MOVED + later) end
    end
  end

  -- Of all calls, shims and windows, for people.
  function m.list(now)
    local held, waiting, past, known = {}, {}, {}, {}
    local flat = call('ZRANGE', DUE, 0, '(' .. format('%.0f', WAITING), 'BYSCORE', 'WITHSCORES')
    for i = 1, #flat, 2 do
      local text = q.read_call(flat[i])
      local _, estimate, _, _, _, _, _, since, _, length, at = unpack_record(LEASE, text)
      held[#held + 1] = {flat[i], sub(text, at, at + length - 1), sub(text, at + length), estimate,
                         now - since, math.max(flat[i + 1] + p.origin - now, 0)}
    end
    for i, id in ipairs(call('ZRANGE', ORDER, 0, -2)) do
      local w = q.parse_waiter(id, q.read_call(id))
      local place = id == p.head_id and 0 or math.max(i - 1, 1)
      waiting[i] = {id, w.shim, w.alias, w.estimate, w.charge, now - w.registered,
                    q.predicted_wait(w.charge, w.estimate, w.output, place)}
    end
    flat = call('HGETALL', POOL)
    local fields = {}
    for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
    for field, text in pairs(fields) do
      if sub(field, 1, 6) == 'alias:' then
        local alias = sub(field, 7)
        local ring = m.ring_of(alias, text)
        past[#past + 1] = {alias, m.close_ring(ring, ring.older or fields['past:' .. alias] or '')}
      end
    end
    for _, kind in ipairs({'V', 'D'}) do
      for _, name in ipairs(m.shims_in(kind, nil, -1)) do
        local s = m.shim_of(name, fields['shim:' .. name])
        known[#known + 1] = {name, now - s.seen, m.share_of(s), s.withheld > 0 and 1 or 0}
      end
    end
    return held, waiting, m.close_ring(p.window, p.windows or fields.windows), past, known
  end

  return m
end

-- --- What is asked, and the pool as the last step left it --------------------------------------

local raw  -- The store's time.
if given == '' then
  local time = call('TIME')
  raw = time[1] * MICRO + time[2]
else
  raw = tonumber(given) or fail('HGARG', 'the moment should be a number, or empty')
end

local id, shim, alias
local estimate, charge, output, hold_left, head_start, since, ttl, cached, output_weight  -- Asked.
local by, uncached, chars, flat, overloaded, number  -- Settled; of the other operations.
local renewed, fields
local stored, call_record, shim_record, alias_record
if op == 'acquire' then
  id, shim, alias = ARGV[3], ARGV[4], ARGV[5]
  if not ARGV[14] or id == '' or shim == '' then
    fail('HGARG', 'acquire takes an id, a shim, an alias and nine numbers; the first two not empty')
  end
  estimate, charge = cut(ARGV[6], 0, TOKENS_MAX), cut(ARGV[7], 0, TOKENS_MAX)
  output, hold_left = cut(ARGV[8], 0, TOKENS_MAX), cut(ARGV[9], 0, HOLD_MAX)
  head_start, since = cut(ARGV[10], 0, HEAD_START_MAX), cut(ARGV[11], 0, SENIORITY_MAX)
  ttl = cut(ARGV[12], TTL_MIN, TTL_MAX)
  cached, output_weight = cut(ARGV[13], 0, WEIGHT_MAX), cut(ARGV[14], 0, WEIGHT_MAX)
  local got = call('HMGET', POOL, 'state', 'call:' .. id, 'shim:' .. shim, 'alias:' .. alias)
  stored, call_record, shim_record, alias_record = got[1], got[2], got[3], got[4]
elseif op == 'settle' or op == 'overload' or op == 'leave' then
  id, by = ARGV[3], ARGV[4]
  if not id then fail('HGARG', op .. ' takes an id') end
  if op == 'overload' then
    by, overloaded = op, 1
  elseif op == 'leave' then
    if by ~= 'gone' and by ~= 'timed_out' then fail('HGARG', 'leave: say gone or timed_out') end
  else
    if not ARGV[10] or by ~= 'usage' and by ~= 'estimate' and by ~= 'refund' then
      fail('HGARG', 'settle takes an id, one of usage, estimate and refund, and six numbers')
    end
    uncached, cached = cut(ARGV[5], 0, USAGE_MAX), cut(ARGV[6], 0, USAGE_MAX)
    output, chars = cut(ARGV[7], 0, USAGE_MAX), cut(ARGV[8], 0, TOKENS_MAX)
    flat, overloaded = cut(ARGV[9], 0, USAGE_MAX), cut(ARGV[10], 0, 1)
  end
  local got = call('HMGET', POOL, 'state', 'call:' .. id)
  stored, call_record = got[1], got[2]
else
  if op == 'renew' then
    shim = ARGV[3]
    if not ARGV[4] or shim == '' or (#ARGV - 4) % RENEW_FIELDS ~= 0 then
      fail('HGARG', 'renew takes a shim, not empty, a lease_ttl, and seven arguments a lease')
    end
    ttl = cut(ARGV[4], TTL_MIN, TTL_MAX)
    renewed, fields = {}, {}
    for i = 1, min((#ARGV - 4) / RENEW_FIELDS, RENEW_MAX) do
      local at = 5 + (i - 1) * RENEW_FIELDS
      if ARGV[at] == '' then fail('HGARG', 'renew: an id must not be empty') end
      renewed[i] = {id = ARGV[at], alias = ARGV[at + 1],
                    estimate = cut(ARGV[at + 2], 0, TOKENS_MAX),
                    charge = cut(ARGV[at + 3], 0, TOKENS_MAX),
                    output = cut(ARGV[at + 4], 0, TOKENS_MAX),
                    cached = cut(ARGV[at + 5], 0, WEIGHT_MAX),
                    output_weight = cut(ARGV[at + 6], 0, WEIGHT_MAX)}
      fields[i] = 'call:' .. ARGV[at]
    end
  elseif op == 'farewell' then
    shim = ARGV[3]
    if not shim then fail('HGARG', 'farewell takes a shim') end
  elseif op == 'pause' then
    number = cut(ARGV[3], 0, PAUSE_MAX)
  elseif op == 'configure' or op == 'restore' then
    number = cut(ARGV[3], 0, NEVER)
  elseif op ~= 'create' and op ~= 'resume' and op ~= 'step' and op ~= 'view' and
    op ~= 'summary' then
    fail('HGARG', 'there is no operation "' .. tostring(op) .. '"')
  end
  stored = call('HGET', POOL, 'state')
end

if stored and sub(stored, 1, 1) ~= FORMAT then
  fail('HGVERSION', 'the pool is stored in format ' .. sub(stored, 1, 1) .. ', and this release ' ..
                    'of Headgate knows format ' .. FORMAT .. ': use a newer release')
end
local there = stored and call('EXISTS', DUE, ORDER, INDEX) == 3

-- A configuration from the arguments, checked as limits.cc does.
local config
if op == 'create' or op == 'configure' or op == 'restore' then
  local first = op == 'create' and 3 or op == 'configure' and 4 or 5
  local rows = {
    {'c_burst', 1, TOKENS_MAX}, {'r_tok', 1, TOKENS_MAX}, {'k_inflight', 1, TOKENS_MAX},
    {'c_req', 1, 1000000}, {'r_qps', 1, 8000000000}, {'c_out', 1, TOKENS_MAX},
    {'r_out', 1, TOKENS_MAX}, {'refused_calls_count', 0, 1},
    {'priority_head_start_max (us)', 0, 300000000}, {'kappa_micro', 2000000, 8000000},
    {'weights.cached_ppm', 0, WEIGHT_MAX}, {'weights.output_ppm', 0, WEIGHT_MAX},
    {'seed.c_burst', 1, TOKENS_MAX}, {'seed.r_tok', 1, TOKENS_MAX},
    {'seed.k_inflight', 1, TOKENS_MAX}, {'seed.c_req', 1, 1000000}, {'seed.r_qps', 1, 8000000000},
    {'seed.c_out', 1, TOKENS_MAX}, {'seed.r_out', 1, TOKENS_MAX}, {'seeded_at (us)', -NEVER, NEVER},
  }
  config = {}
  local seedless = true
  for i = 12, 16 do seedless = seedless and ARGV[first + i] == '0' end
  for i, row in ipairs(rows) do
    local text = ARGV[first + i - 1]
    local optional = i == 6 or i == 7 or i == 18 or i == 19
    local none = optional and text == '' or seedless and i >= 13 and i <= 19
    local x = none and 0 or tonumber(text)
    if not x or x % 1 ~= 0 then fail('HGCONFIG', row[1] .. ' must be a whole number') end
    if not none and (x < row[2] or x > row[3]) then
      fail('HGCONFIG', format('%s is %.0f; allowed are %.0f to %.0f', row[1], x, row[2], row[3]))
    end
    config[i] = x
  end
  if (config[6] == 0) ~= (config[7] == 0) then
    fail('HGCONFIG', 'c_out and r_out: give both or neither')
  end
  if (config[18] == 0) ~= (config[19] == 0) then
    fail('HGCONFIG', 'seed.c_out and seed.r_out: give both or neither')
  end
  local words = {}
  for i = 1, 20 do words[i] = format('%.0f', config[i]) end
  words[21] = ARGV[first + 20] or ''
  config.text = table.concat(words, ' ')
end

if not there then
  if op ~= 'create' and op ~= 'restore' then
    return redis.error_reply('NOPOOL this store has no such pool, or lost a part of it')
  end
  local full = op == 'create'
  local version = full and 1 or cut(ARGV[3], 1, NEVER)
  local epoch = full and 1 or cut(ARGV[4], 0, NEVER - 1) + 1
  local filled = full and MICRO or 0
  call('DEL', unpack(KEYS))
  call('HSET', POOL, 'config', config.text, 'windows', '', 'state',
       pack(STATE, FORMAT .. (given == '' and 's' or 't'), version, epoch, raw, 0, raw,
            config[1] * filled, config[4] * filled, 0, config[6] * filled, config[10], raw, raw,
            config[1], config[2], config[3], config[4], config[5], config[6], config[7], config[8],
            config[9], 0, NEVER, 0, 0, 0, 0, 0, 0, 0, 0, raw, 0, 0, 0, NEVER, NEVER, 0, 0, 0, 0, 0,
            0, 0) .. pack(RING, 0, 0, 0, 0, 0, 0, 0, (raw - raw % WINDOW) / WINDOW))
  call('ZADD', DUE, 'inf', '')
  call('ZADD', ORDER, 'inf', '')
  call('ZADD', INDEX, 0, '')
  for i = 1, 4 do call('EXPIRE', KEYS[i], LIFETIME_S) end
  return {'ok', version, config[10], epoch, '', 1}
end

local mark, version, epoch, origin, offset, last, tokens, requests, rest, out, kappa, paused_until,
  probe_at, c_burst, r_tok, k_inflight, c_req, r_qps, c_out, r_out, refused_count, head_start_max,
  withheld, next_sweep, leases, inflight, waiters, wait_charge, wait_estimate, wait_output,
  shim_count, alias_count, refreshed, endings, past_admitted, released_lately, turn_at, told_at,
  head_score, head_charge, head_estimate, head_output, id_length, shim_length, told_length,
  position = unpack_record(STATE, stored)
if (mark == FORMAT .. 't') ~= (given ~= '') then
  fail('HGCLOCK', given == '' and 'this is a pool for tests: each command must bring the moment'
                  or 'only a pool that was made for tests takes the moment from a command')
end
local window = {unpack_record(RING, stored, position)}
local names = window[9]
local turn_id, told_id, told_shim, head_shim
if id_length > 0 then
  turn_id = sub(stored, names, names + id_length - 1)
  head_shim = sub(stored, names + id_length, names + id_length + shim_length - 1)
end
if told_at ~= NEVER then
  names = names + id_length + shim_length
  told_id, told_shim = sub(stored, names, names + told_length - 1), sub(stored, names + told_length)
end

-- --- Time --------------------------------------------------------------------------------------

local looking = op == 'view' or op == 'summary'
local now = raw + offset
local elapsed = now - last
if elapsed < 0 then
  offset, now, elapsed = offset - elapsed, last, 0
elseif elapsed > AWAY_AFTER and (leases > 0 or waiters > 0) and not looking then
  offset, now, elapsed = offset - elapsed, last, 0
  epoch = epoch + 1
end
local index = (now - now % WINDOW) / WINDOW

local rate, request_rate, out_rate = r_tok, r_qps, r_out
if withheld > 0 then
  rate, request_rate, out_rate = less(r_tok, withheld), less(r_qps, withheld), less(r_out, withheld)
end
if elapsed > 0 then
  local capacity = c_burst * MICRO
  local gained = elapsed * rate
  if gained >= capacity - tokens or elapsed >= WAIT_MAX then
    tokens = capacity
  else
    tokens = tokens + gained
  end
  if c_out > 0 then
    capacity = c_out * MICRO
    gained = elapsed * out_rate
    if gained >= capacity - out or elapsed >= WAIT_MAX then
      out = capacity
    else
      out = out + gained
    end
  end
  capacity = c_req * MICRO
  if elapsed >= request_wait(capacity, requests, rest, request_rate) then
    requests, rest = capacity, 0
  else
    gained = elapsed % MICRO * request_rate + rest
    requests = requests + (elapsed - elapsed % MICRO) / MICRO * request_rate +
      (gained - gained % MICRO) / MICRO
    rest = gained % MICRO
  end
end

-- What this step and `more` share; and once they are read or made, the records of the call, shim
-- and alias that are asked about: id and call, shim and s, alias and ring.
local p = {
  now = now, origin = origin, index = index, withheld = withheld, next_sweep = next_sweep,
  leases = leases, inflight = inflight, waiters = waiters, wait_charge = wait_charge,
  wait_estimate = wait_estimate, wait_output = wait_output, shim_count = shim_count,
  alias_count = alias_count, past_admitted = past_admitted, released_lately = released_lately,
  window = window, head_known = true, head_id = turn_id, head_shim = head_shim,
  head_score = head_score, head_charge = head_charge, head_estimate = head_estimate,
  head_output = head_output,
}
local q, more
local function need_more()
  if not more then
    q = q or make_queue(p)
    more = make_more(p, q, parse_shim)
  end
  return more
end

if window[8] ~= index then need_more().close_window() end
if not looking then
  -- A head that could go for 2 s and did not ask loses its reservation, not its place.
  if turn_id and turn_at ~= NEVER and turn_at + LAPSE_AFTER <= now then
    need_more()
    more.set_reserves(q.parse_waiter(turn_id, q.read_call(turn_id)), 0)
  end
  if now >= next_sweep then need_more().sweep() end
end

-- --- The operations ----------------------------------------------------------------------------

local status, answer = 'ok', nil
local published  -- A message for all shims that have waiters.
local amount, amount_out, amount_requests = 0, 0, 0  -- To draw, in micro-units.

if op == 'acquire' then
  head_start = min(head_start, head_start_max)
  local s = more and more.shims[shim]
  if not s then
    if shim_record then
      s = parse_shim(shim_record)
      p.shim, p.s = shim, s
      if s.window ~= index then need_more().close_shim(s) end
    else
      s = need_more().shim_of(shim, false)
    end
  end
  if s.state == 'L' and now - s.entry < ENTRY_AGES then
    s.seen, s.changed = now, true
  else
    need_more().seen(shim, s)
  end
  if told_id == id then told_at, told_id, told_shim = NEVER, nil, nil end
  if q and q.calls[id] ~= nil then call_record = q.calls[id] end
  local kind = call_record and sub(call_record, 1, 1)
  if kind == 'E' then
    local _, until_at = unpack_record(TOMB, call_record)
    if until_at <= now then kind = nil end
  end

  if kind == 'L' then
    status = 'admitted'
  elseif kind == 'E' then
    status = 'ended'
  else
    -- Where it stands: a waiter keeps what its first ask said; a new one gets its score.
    local w, score, registered
    local was_waiting = kind == 'W'
    if not q and p.waiters > 0 then q = make_queue(p) end
    if was_waiting then
      w = q.parse_waiter(id, call_record)
      if w.reserves ~= 1 then need_more().set_reserves(w, 1) end
      charge, estimate, output, cached = w.charge, w.estimate, w.output, w.cached
      output_weight, score, registered = w.output_weight, w.score, w.registered
    else
      local size = min(charge, c_burst) * MICRO
      local refill = (size - size % r_tok) / r_tok
      score, registered = now - since - min(refill, HEAD_START_OF_SIZE) - head_start, now
    end
    if not p.head_known then q.find_head() end
    local head_id = p.head_id
    local behind = head_id and head_id ~= id and
      not q.comes_before(score, id, p.head_score, head_id)

    -- The checks, in order; the first that fails names the denial. The clamps are for the head.
    if p.withheld ~= withheld then
      rate, request_rate = less(r_tok, p.withheld), less(r_qps, p.withheld)
      out_rate = less(r_out, p.withheld)
    end
    local axis
    if paused_until > now and (behind or probe_at > now) then
      axis = 'paused'
    elseif behind then
      if tokens < (charge + min(p.head_charge, c_burst)) * MICRO then
        axis = 'tok'
      elseif requests < 2 * MICRO then
        axis = 'req'
      elseif p.inflight + estimate + min(p.head_estimate, k_inflight) > k_inflight then
        axis = 'inflight'
      elseif c_out > 0 and out < (output + min(p.head_output, c_out)) * MICRO then
        axis = 'out'
      end
    elseif tokens < min(charge, c_burst) * MICRO then
      axis = 'tok'
    elseif requests < MICRO then
      axis = 'req'
    elseif p.inflight + min(estimate, k_inflight) > k_inflight then
      axis = 'inflight'
    elseif c_out > 0 and out < min(output, c_out) * MICRO then
      axis = 'out'
    end

    local enqueued = axis and not was_waiting and hold_left > 0
    if axis and not q then q = make_queue(p) end
    local ring
    if enqueued or not axis then
      local name = was_waiting and w.alias or alias
      ring = more and more.rings[name]
      if not ring and name == alias and alias_record then
        ring = {unpack_record(RING, alias_record)}
        if ring[8] == index then p.alias, p.ring = alias, ring else ring = nil end
      end
      ring = ring or need_more().ring_of(name)
    end

    if not axis then
      status = 'admitted'
      amount, amount_requests, amount_out = charge * MICRO, MICRO, output * MICRO
      local owner, owner_shim, ring_alias = s, shim, alias
      if was_waiting then
        owner_shim, ring_alias = w.shim, w.alias
        if owner_shim ~= shim then owner = need_more().shim_of(owner_shim) end
        q.take_waiter(w, owner)
      end
      p.id, p.call = id, pack(LEASE, 'L', estimate, charge, output, cached, output_weight, 0, now,
                              ttl, #owner_shim) .. owner_shim .. ring_alias
      call('ZADD', DUE, now + ttl - origin, id)
      if now + ttl < p.next_sweep then p.next_sweep = now + ttl end
      p.leases, p.inflight = p.leases + 1, p.inflight + estimate
      owner.leases, owner.changed = owner.leases + 1, true
      if owner.state ~= 'F' then owner.admitted = owner.admitted + 1 end
      if paused_until > now then probe_at = now + PROBE_EVERY end
      ring[ADMITTED], window[ADMITTED] = ring[ADMITTED] + 1, window[ADMITTED] + 1
      if was_waiting and now - registered > WAITED_LONG then
        ring[LONG], window[LONG] = ring[LONG] + 1, window[LONG] + 1
      end
    else
      status = 'denied'
      if was_waiting or enqueued then
        call('ZADD', DUE, WAITING + now + hold_left - origin, id)
        if now + hold_left < p.next_sweep then p.next_sweep = now + hold_left end
      end
      if enqueued then
        w = {id = id, shim = shim, alias = alias, score = score, charge = charge,
             estimate = estimate, output = output, cached = cached, output_weight = output_weight,
             registered = now, reserves = 1}
        p.id, p.call = id, pack(WAITER, 'W', score, charge, estimate, output, cached, output_weight,
                                now, 1, #shim) .. shim .. alias
        p.waiters = p.waiters + 1
        p.wait_charge = p.wait_charge + charge
        p.wait_estimate = p.wait_estimate + estimate
        p.wait_output = p.wait_output + output
        s.waiters = s.waiters + 1
        q.into_line(w, s)
        p.head_known = true
        if not behind then
          p.head_id, p.head_shim, p.head_score = id, shim, score
          p.head_charge, p.head_estimate, p.head_output = charge, estimate, output
        end
        ring[HELD], window[HELD] = ring[HELD] + charge, window[HELD] + charge
      end
      local place = 0
      if behind or enqueued then
        if not was_waiting then call('ZADD', ORDER, score, id) end
        if behind then place = max(call('ZRANK', ORDER, id), 1) end
        if not was_waiting and not enqueued then call('ZREM', ORDER, id) end
      end
      p.c_burst, p.k_inflight, p.c_out = c_burst, k_inflight, c_out
      p.tokens, p.requests = tokens, requests
      p.rest, p.out, p.rate, p.request_rate, p.out_rate = rest, out, rate, request_rate, out_rate
      p.token_wait, p.request_wait = token_wait, request_wait
      local wait, pause = q.predicted_wait(charge, estimate, output, place), 0
      if axis == 'paused' then
        -- Until the next call may pass: the head's probe, for others the one after it.
        local probe = behind and probe_at <= now and now + PROBE_EVERY or probe_at
        pause = max(min(paused_until, probe) - now, 0)
        wait = max(wait, pause)
      end
      answer = {status, version, kappa, epoch, '', 0, 0, axis, place, wait, pause}
    end
  end
  answer = answer or {status, version, kappa, epoch, '', 0, 0}
  local all = p.past_admitted + window[ADMITTED]
  if all > 0 then
    local x = (s.past + s.admitted) * MICRO
    answer[6] = (x - x % all) / all
  end
  answer[7] = p.shim_count

elseif op == 'settle' or op == 'overload' then
  if q and q.calls[id] ~= nil then call_record = q.calls[id] end
  local done = call_record and sub(call_record, 1, 1) == 'L'
  if done then
    local _, held, drawn, drawn_out, w_cached, w_output, rebuilt, _, ttl, length, at =
      unpack_record(LEASE, call_record)
    local owner, name = sub(call_record, at, at + length - 1), sub(call_record, at + length)
    p.leases, p.inflight = p.leases - 1, p.inflight - held
    p.id, p.call = id, pack(TOMB, 'E', now + 2 * ttl)
    call('ZADD', DUE, ENDED + now + 2 * ttl - origin, id)
    endings = endings + 1
    if endings >= 50 then
      endings = 0
      need_more().forget_ended()
    end

    local s, ring = more and more.shims[owner], more and more.rings[name]
    if not s or not ring then
      local got = call('HMGET', POOL, 'shim:' .. owner, 'alias:' .. name)
      if not s and got[1] then
        s = parse_shim(got[1])
        p.shim, p.s = owner, s
        if s.window ~= index then need_more().close_shim(s) end
      end
      if not ring and got[2] then
        ring = {unpack_record(RING, got[2])}
        if ring[8] == index then p.alias, p.ring = name, ring else ring = nil end
      end
      s = s or need_more().shim_of(owner)
    end
    if s.state == 'L' and now - s.entry < ENTRY_AGES then
      s.seen, s.changed = now, true
    else
      need_more().seen(owner, s)
    end
    s.leases = s.leases - 1
    ring = ring or need_more().ring_of(name)
    ring[RELEASED], window[RELEASED] = ring[RELEASED] + held, window[RELEASED] + held

    local accepted = 0
    if by == 'estimate' then
      accepted = drawn
    elseif by == 'usage' then
      local x = uncached * MICRO + cached * w_cached + output * w_output
      accepted = min((x - x % MICRO) / MICRO, TOKENS_MAX)
      if accepted > drawn or rebuilt == 0 then amount = (accepted - drawn) * MICRO end
      if output > drawn_out or rebuilt == 0 then amount_out = (output - drawn_out) * MICRO end
      -- Characters per token: an average of what calls of some size show.
      local text_tokens = uncached + cached - flat
      if chars > 0 and text_tokens >= 1000 then
        x = chars * MICRO
        local observed = (x - x % text_tokens) / text_tokens
        local difference = max(min(observed, 8000000), 2000000) - kappa
        kappa = kappa + (difference - difference % 20) / 20
      end
    elseif (by == 'refund' or refused_count == 0) and rebuilt == 0 then
      amount, amount_requests, amount_out = -drawn * MICRO, -MICRO, -drawn_out * MICRO
    end
    ring[ACCEPTED], window[ACCEPTED] = ring[ACCEPTED] + accepted, window[ACCEPTED] + accepted
    ring[OVERLOADS] = ring[OVERLOADS] + overloaded
    window[OVERLOADS] = window[OVERLOADS] + overloaded
  end
  answer = {status, version, kappa, epoch, '', done and 1 or 0}

elseif op == 'leave' then
  if q and q.calls[id] ~= nil then call_record = q.calls[id] end
  local done = call_record and sub(call_record, 1, 1) == 'W'
  if done then
    need_more()
    local w = q.parse_waiter(id, call_record)
    more.seen(w.shim, more.shim_of(w.shim))
    more.drop_waiter(w, by == 'timed_out')
  end
  answer = {status, version, kappa, epoch, '', done and 1 or 0}

elseif op == 'renew' then
  need_more()
  local s = more.shim_of(shim)
  more.seen(shim, s)
  local records = fields[1] and call('HMGET', POOL, unpack(fields))
  local deadline = now + ttl - origin
  local deadlines = {}
  for i, lease in ipairs(renewed) do
    local record = q.calls[lease.id]
    if record == nil then record = records[i] end
    local kind = record and sub(record, 1, 1)
    if kind == 'E' then
      local _, until_at = unpack_record(TOMB, record)
      if until_at <= now then kind = nil end
    end
    if kind ~= 'E' then
      deadlines[#deadlines + 1] = deadline
      deadlines[#deadlines + 1] = lease.id
      if kind == 'L' then
        local _, estimate, charge, output, cached, output_weight, rebuilt, since, old, length, at =
          unpack_record(LEASE, record)
        if old ~= ttl then
          q.calls[lease.id] = pack(LEASE, 'L', estimate, charge, output, cached, output_weight,
                                   rebuilt, since, ttl, length) .. sub(record, at)
        end
      else
        -- Its owner knows better: the store lost the admission, and maybe still has the waiter.
        if kind == 'W' then
          local w = q.parse_waiter(lease.id, record)
          q.take_waiter(w, more.shim_of(w.shim))
        end
        q.calls[lease.id] = pack(LEASE, 'L', lease.estimate, lease.charge, lease.output,
                                    lease.cached, lease.output_weight, 1, now, ttl, #shim) ..
          shim .. lease.alias
        p.leases, p.inflight = p.leases + 1, p.inflight + lease.estimate
        s.leases = s.leases + 1
      end
    end
  end
  if deadlines[1] then
    call('ZADD', DUE, unpack(deadlines))
    more.due(now + ttl)
  end
  answer = {status, version, kappa, epoch, '', more.share_of(s), p.shim_count}

elseif op == 'farewell' then
  need_more().farewell(shim, more.shim_of(shim))

elseif op == 'configure' or op == 'restore' then
  local adopt
  if op == 'configure' then adopt = number == version else adopt = number > version end
  if adopt then
    -- What was learned stays, unless a person says otherwise.
    local words = {}
    for word in string.gmatch(call('HGET', POOL, 'config'), '%S+') do words[#words + 1] = word end
    if config[10] ~= words[10] + 0 then kappa = config[10] end
    version = op == 'configure' and version + 1 or number
    local had_out = c_out > 0
    c_burst, r_tok, k_inflight, c_req, r_qps, c_out, r_out, refused_count, head_start_max =
      unpack(config, 1, 9)
    tokens = min(tokens, c_burst * MICRO)
    requests = min(requests, c_req * MICRO)
    if requests == c_req * MICRO then rest = 0 end
    out = had_out and min(out, c_out * MICRO) or c_out * MICRO
    need_more().put('config', config.text)
    withheld = -1  -- The rates are computed anew.
  elseif op == 'configure' then
    status = 'conflict'
  end
  answer = {status, version, kappa, epoch, '', adopt and 1 or 0}

elseif op == 'create' then
  status = 'exists'

elseif op == 'pause' then
  paused_until = now + number
  probe_at = now + PROBE_EVERY
  local left = min(paused_until, probe_at) - now
  answer = {status, version, kappa, epoch, '', now + left - offset, left}
  published = format('%.0f %.0f ', left, now + left - offset)

elseif op == 'resume' then
  paused_until = now

elseif looking then
  answer = {status, version, kappa, epoch, '', call('HGET', POOL, 'config')}
  if op == 'summary' then return answer end
  p.c_burst, p.k_inflight, p.c_out = c_burst, k_inflight, c_out
  p.tokens, p.requests = tokens, requests
  p.rest, p.out, p.rate, p.request_rate, p.out_rate = rest, out, rate, request_rate, out_rate
  p.token_wait, p.request_wait = token_wait, request_wait
  local held, waiting, windows, past, known = need_more().list(now)
  return {status, version, kappa, epoch, '', answer[6], tokens, requests, out, inflight,
          max(paused_until - now, 0), held, waiting, windows, past, known}

end
answer = answer or {status, version, kappa, epoch, ''}

-- --- The levels, the head's turn, and the end of the step --------------------------------------

if amount ~= 0 then tokens = max(min(tokens - amount, c_burst * MICRO), -DEBT_MAX) end
if amount_requests ~= 0 then
  requests = max(min(requests - amount_requests, c_req * MICRO), -DEBT_MAX)
  if requests == c_req * MICRO then rest = 0 end
end
if c_out > 0 and amount_out ~= 0 then
  out = max(min(out - amount_out, c_out * MICRO), -DEBT_MAX)
end

if not p.head_known then q.find_head() end
local head_id = p.head_id
local head_names = ''
if not head_id then
  turn_at, head_score, head_charge, head_estimate, head_output = NEVER, 0, 0, 0, 0
  id_length, shim_length = 0, 0
else
  head_shim, head_score = p.head_shim, p.head_score
  head_charge, head_estimate, head_output = p.head_charge, p.head_estimate, p.head_output
  id_length, shim_length = #head_id, #head_shim
  local at = NEVER
  if p.inflight + min(head_estimate, k_inflight) <= k_inflight then
    if p.withheld ~= withheld then
      rate, request_rate = less(r_tok, p.withheld), less(r_qps, p.withheld)
      out_rate = less(r_out, p.withheld)
    end
    local wait = max(token_wait(min(head_charge, c_burst) * MICRO, tokens, rate),
                     request_wait(MICRO, requests, rest, request_rate))
    if c_out > 0 then
      wait = max(wait, token_wait(min(head_output, c_out) * MICRO, out, out_rate))
    end
    if paused_until > now then wait = max(wait, min(paused_until, probe_at) - now) end
    at = now + wait
  end
  -- Since turn_at: the time in which it may ask goes on.
  if not (head_id == turn_id and turn_at <= now and at == now) then turn_at = at end
  if turn_at ~= NEVER then
    at = turn_at - offset
    if told_id ~= head_id or told_shim ~= head_shim or told_at ~= at then
      told_id, told_shim, told_at = head_id, head_shim, at
      answer[5] = {head_id, head_shim, at, max(turn_at - now, 0)}
    end
  end
  head_names = head_id .. head_shim
end
told_length = 0
if told_id then
  told_length = #told_id
  head_names = head_names .. told_id .. told_shim
end

if raw - refreshed >= REFRESH_EVERY or raw < refreshed then
  refreshed = raw
  for i = 1, 4 do call('EXPIRE', KEYS[i], LIFETIME_S) end
end
local state = pack(STATE, mark, version, epoch, origin, offset, now, tokens, requests, rest, out,
  kappa, paused_until, probe_at, c_burst, r_tok, k_inflight, c_req, r_qps, c_out, r_out,
  refused_count, head_start_max, p.withheld, p.next_sweep, p.leases, p.inflight, p.waiters,
  p.wait_charge, p.wait_estimate, p.wait_output, p.shim_count, p.alias_count, refreshed, endings,
  p.past_admitted, p.released_lately, turn_at, told_at, head_score, head_charge, head_estimate,
  head_output, id_length, shim_length, told_length) .. pack(RING, window[1], window[2], window[3],
  window[4], window[5], window[6], window[7], window[8]) .. head_names
local s, ring = p.s, p.ring
if s and ring and p.call and not more then
  call('HSET', POOL, 'state', state, 'call:' .. p.id, p.call,
       'shim:' .. p.shim, pack(SHIM, s.state, s.withheld, s.withheld_until, s.leases, s.waiters,
                               s.seen, s.entry, s.window, s.admitted, s.past, s.front_score,
                               #s.front) .. s.front .. s.older,
       'alias:' .. p.alias, pack(RING, unpack(ring, 1, 8)))
else
  need_more()
  local put = more.put
  put('state', state)
  if p.call then put('call:' .. p.id, p.call) end
  if s and s.changed then more.shims[p.shim] = s end
  if ring then more.rings[p.alias] = ring end
  for name, other in pairs(more.shims) do
    if other.changed and other.state == 'F' and other.leases == 0 and other.waiters == 0 then
      call('HDEL', POOL, 'shim:' .. name)
    elseif other.changed then
      put('shim:' .. name, pack(SHIM, other.state, other.withheld, other.withheld_until,
                                other.leases, other.waiters, other.seen, other.entry,
                                other.window, other.admitted, other.past, other.front_score,
                                #other.front) .. other.front .. other.older)
    end
  end
  for name, other in pairs(more.rings) do
    put('alias:' .. name, pack(RING, unpack(other, 1, 8)))
  end
  for name, record in pairs(q.calls) do
    if name ~= p.id then
      if record then put('call:' .. name, record) else call('HDEL', POOL, 'call:' .. name) end
    end
  end
  call('HSET', POOL, unpack(more.batch))
end

-- Told last, and never able to fail the step.
local wake = answer[5]
if wake ~= '' then
  redis.pcall('PUBLISH', sub(POOL, 1, -5) .. 'wake:' .. wake[2],
              format('%.0f %.0f %s', wake[4], wake[3], wake[1]))
end
if published and p.waiters > 0 then
  for _, name in ipairs(need_more().shims_in('V', nil, -1)) do
    if more.shim_of(name).waiters > 0 then
      redis.pcall('PUBLISH', sub(POOL, 1, -5) .. 'wake:' .. name, published)
    end
  end
end
return answer
