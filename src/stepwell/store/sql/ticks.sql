-- The statements around a tick: groups with work, the lock and its fence, the tick log, pick and dispatch.

-- macro: has_decisions
-- Whether a tick of the group of `d` has something to decide. `(SELECT … LIMIT 1) IS NOT NULL` is EXISTS with one index
-- probe: for EXISTS, PostgreSQL would build a hash table of all waiting steps (measured: 40 ms for 50,000).
(SELECT m.id FROM steps_marks m WHERE m."group" = d."group" LIMIT 1) IS NOT NULL
   OR (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'unchecked' AND a."group" = d."group" LIMIT 1) IS NOT NULL
   OR (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'exhausted' AND a."group" = d."group" LIMIT 1) IS NOT NULL
   OR (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'undecided' AND a."group" = d."group" LIMIT 1) IS NOT NULL
   OR (SELECT a.step_id FROM steps_agenda a
       WHERE a.status = 'gate' AND a."group" = d."group" AND a.due_at <= :now LIMIT 1) IS NOT NULL
   OR (SELECT a.step_id FROM steps_agenda a
       WHERE a.status = 'delayed' AND a."group" = d."group" AND a.due_at <= :now LIMIT 1) IS NOT NULL

-- macro: or_adoption
-- A row without a group: there are rows of plain SQL to adopt, or keys to decide.
UNION ALL
SELECT NULL WHERE EXISTS (SELECT 1 FROM steps_agenda a WHERE a.status = 'new')
                  OR EXISTS (SELECT 1 FROM steps_key_marks)

-- name: groups_with_work(now)
-- Read before any lock is taken; an idle system does nothing else.
WITH room (queue) AS (
    SELECT l.queue
    FROM (SELECT DISTINCT queue, worker_id FROM steps_worker_lanes) AS l
    JOIN steps_workers w ON w.id = l.worker_id AND w.alive_until > :now
    WHERE @is_dispatching
    GROUP BY l.queue
    HAVING 2 * sum(w.slots) > (SELECT count(*) FROM steps_agenda a WHERE a.status = 'dispatched' AND a.queue = l.queue)
), lanes (queue, action, "group") AS (
    SELECT DISTINCT l.queue, l.action, l."group"
    FROM room r JOIN steps_lanes_served l ON l.queue = r.queue AND l.alive_until > :now
)
SELECT d."group" FROM steps_dispatcher d
WHERE @has_decisions
   OR (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = d."group" LIMIT 1) IS NOT NULL
      AND EXISTS (SELECT 1 FROM lanes l
                  WHERE l."group" IN ('', d."group") AND (SELECT a.step_id FROM steps_agenda a
                         WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = d."group" AND a.queue = l.queue AND a.action = l.action
                         LIMIT 1) IS NOT NULL)
@or_adoption;

-- name: groups_held_by_breaker()
-- The groups with steps that only the circuit breaker holds back.
SELECT d."group" FROM steps_dispatcher d
WHERE NOT @is_dispatching
  AND (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = d."group" LIMIT 1) IS NOT NULL;

-- name: groups_with_decisions(now)
-- The same without steps that only wait for a free slot: workers poll for those themselves.
SELECT d."group" FROM steps_dispatcher d
WHERE @has_decisions
@or_adoption;

-- name: delete_idle_marks(limit)!
-- Deletes the marks of completed steps that leave nothing to decide: their parent, if any, still waits for other children,
-- and every step that waited only for them was put on the agenda when they ended. (A step created later is marked itself,
-- and so is a sibling that ends at the same moment.) Only the first twenty steps of the next index are checked: with more,
-- the mark is left to the tick. An unchecked step does not count as on the agenda: a running tick, which read it before
-- these steps ended, may still remove it.
DELETE FROM steps_marks WHERE step_id @in(
    SELECT done.id
    FROM (SELECT s.id, s.parent_step_id, s.block_uuid, s.type, s."index",
                 (SELECT min(u."index") FROM steps_unconcluded u
                  WHERE u.block_uuid = s.block_uuid AND u.type = s.type) AS level
          FROM steps s WHERE s.id @in(SELECT m.step_id FROM steps_marks m ORDER BY m.id LIMIT :limit)
            AND s.state = 'Completed' AND s.lease_worker IS NULL AND NOT s.has_children) AS done
    WHERE (done.parent_step_id IS NULL
           OR (SELECT u.step_id FROM steps_unconcluded u
               WHERE u.block_uuid = done.block_uuid AND NOT u.ended LIMIT 1) IS NOT NULL)
      AND (done.level IS NULL OR done.level <= done."index"
           OR (SELECT sum(CASE WHEN f.state <> 'Pending' OR EXISTS (SELECT 1 FROM steps_agenda a
                                                                WHERE a.step_id = f.id AND a.status <> 'unchecked')
                               THEN 1 ELSE 21 END)
               FROM (SELECT u.step_id FROM steps_unconcluded u
                     WHERE u.block_uuid = done.block_uuid AND u.type = done.type AND u."index" = done.level LIMIT 21) AS next
               CROSS JOIN steps f WHERE f.id = next.step_id) <= 20)
      AND NOT EXISTS (SELECT 1 FROM step_dependencies e CROSS JOIN steps f
                      WHERE e.depends_on_id = done.id AND f.id = e.step_id AND f.state = 'Pending'
                        AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = f.id AND a.status <> 'unchecked')));

-- name: next_due()
-- When the first delayed step is due, or the first gate expires.
SELECT min(due_at) AS due_at
FROM (SELECT (SELECT a.due_at FROM steps_agenda a WHERE a.status = 'delayed' AND a."group" = d."group"
              ORDER BY a.due_at LIMIT 1) AS due_at FROM steps_dispatcher d
      UNION ALL
      SELECT (SELECT a.due_at FROM steps_agenda a WHERE a.status = 'gate' AND a."group" = d."group"
              ORDER BY a.due_at LIMIT 1) FROM steps_dispatcher d) AS first;

-- name: acquire_lock(group, owner, now, deadline)
-- Succeeds if the lock is free or past its deadline, or if its tick begins in the future, after this one's deadline: then
-- the clock was set back, and the lock would last until it has caught up. The previous owner sees from the token that it
-- lost the lock.
UPDATE steps_dispatcher SET lock_owner = :owner, lock_token = lock_token + 1, lock_deadline = :deadline
WHERE "group" = :group
  AND (lock_owner IS NULL OR lock_deadline <= :now
       OR (SELECT t.started_at FROM steps_dispatcher_ticks t WHERE t.id = current_tick_id) >= :deadline)
RETURNING lock_token, ended_early;

-- name: begin_tick(group, owner, now)
INSERT INTO steps_dispatcher_ticks ("group", owner, started_at) VALUES (:group, :owner, :now) RETURNING id;

-- name: set_current_tick(group, token, tick)!
UPDATE steps_dispatcher SET current_tick_id = :tick WHERE "group" = :group AND lock_token = :token;

-- name: marks_of_group(group)
-- `belongs_to` is for what plain SQL may have ended, which only steps of declared workflows tell: each of them leaves a mark.
SELECT m.id, m.step_id, s.state, s.workflow_id,
       CASE WHEN s.belongs_to = 'workflow' AND s.state NOT IN @unfinished THEN s.belongs_to END AS belongs_to
FROM steps_marks m LEFT JOIN steps s ON s.id = m.step_id WHERE m."group" = :group;

-- name: pending_work(group, now)
-- The features of undecided steps are those of the first few hundred: the next tick decides about those behind them.
SELECT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.status = 'unchecked' AND a."group" = :group) AS unchecked,
       EXISTS (SELECT 1 FROM steps_agenda a WHERE a.status = 'exhausted' AND a."group" = :group) AS exhausted,
       EXISTS (SELECT 1 FROM steps_agenda a WHERE a.status = 'delayed' AND a."group" = :group AND a.due_at <= :now) AS due,
       (SELECT @sqlite(group_concat(DISTINCT f.feature))@postgres(string_agg(DISTINCT f.feature, ','))
        FROM (SELECT * FROM (SELECT (SELECT s.belongs_to FROM steps s WHERE s.id = a.step_id) AS feature FROM steps_agenda a
                             WHERE a.status = 'undecided' AND a."group" = :group ORDER BY a.step_id LIMIT 500) AS ready
              UNION ALL
              SELECT * FROM (SELECT (SELECT s.belongs_to FROM steps s WHERE s.id = a.step_id) AS feature FROM steps_agenda a
                             WHERE a.status = 'gate' AND a."group" = :group AND a.due_at <= :now ORDER BY a.due_at LIMIT 500) AS due) AS f
       ) AS undecided;

-- name: end_tick(tick, now, progress, dispatched, duration_ms, error)!
UPDATE steps_dispatcher_ticks SET ended_at = :now, progress = :progress, steps_dispatched = :dispatched,
    duration_ms = :duration_ms, error = :error
WHERE id = :tick;

-- name: log_set_aside(id, owner, now, progress)!
-- Rows are set aside between ticks: the log of their group gets an entry of its own. (A row without a place has no group.)
INSERT INTO steps_dispatcher_ticks ("group", owner, started_at, ended_at, progress, duration_ms)
SELECT coalesce(s."group", ''), :owner, @time(:now), @time(:now), @sqlite(:progress)@postgres(CAST(:progress AS json)), 0
FROM steps s WHERE s.id = :id;

-- name: delete_tick(tick)!
DELETE FROM steps_dispatcher_ticks WHERE id = :tick;

-- name: release_lock(group, token, now, ended_early)!
UPDATE steps_dispatcher SET lock_owner = NULL, lock_deadline = NULL, current_tick_id = NULL,
    last_tick_completed = :now, ended_early = :ended_early
WHERE "group" = :group AND lock_token = :token;

-- name: record_selection(group, now)!
UPDATE steps_dispatcher SET last_selected_at = :now WHERE "group" = :group;

-- name: prune_ticks(group, keep)!
DELETE FROM steps_dispatcher_ticks
WHERE "group" = :group AND id <= (
    SELECT id FROM steps_dispatcher_ticks WHERE "group" = :group ORDER BY id DESC LIMIT 1 OFFSET :keep);

-- name: delete_marks(ids)!
DELETE FROM steps_marks WHERE id @in(:ids bigint);

-- name: lock_queues(group)
-- One dispatch at a time per queue, so that the bound on Dispatched steps is exact across groups. The second lock is for
-- workers with one slot (`wait_for_dispatch`), of which many may wait for the same queue.
SELECT locked.name @postgres(, pg_advisory_xact_lock(@queue_lock(locked.name)))
FROM (SELECT name FROM steps_queues q
      WHERE (SELECT a.step_id FROM steps_agenda a
             WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = :group AND a.queue = q.name
             ORDER BY a.action, a.rank, a.step_id LIMIT 1) IS NOT NULL
      ORDER BY name @postgres(FOR UPDATE)) AS locked;

-- name: fence(group, owner, token)
-- Locks the row of the group lock until the transaction ends: a takeover waits for it, and after a takeover this returns
-- nothing. If the process is suspended in this transaction, the server ends its session, which frees the group.
SELECT lock_token
FROM steps_dispatcher WHERE "group" = :group AND lock_owner = :owner AND lock_token = :token
@postgres(FOR UPDATE);

-- name: keep_to_indexes()
-- For a transaction that only reads; one that writes begins so (`store/postgres/bounds.py`).
SELECT 1 AS kept @keep_to_indexes;
