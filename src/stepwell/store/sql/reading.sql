-- Reads for people: steps, history, trees, counts, workers, groups, ticks.

-- name: unserved_lanes(now)
-- Lanes with steps that could run now if a live worker served them.
SELECT a.queue, a.action, count(*) AS steps FROM steps_agenda a
WHERE a.status IN ('open', 'dispatched')
  AND NOT EXISTS (SELECT 1 FROM steps_lanes_served l WHERE l.queue = a.queue AND l.action = a.action
                    AND l."group" IN ('', a."group") AND l.alive_until > :now)
GROUP BY a.queue, a.action ORDER BY count(*) DESC, a.queue, a.action;

-- name: step_by_id(id)
SELECT * FROM steps WHERE id = :id;

-- name: step_by_uuid(uuid)
SELECT * FROM steps WHERE uuid = :uuid;

-- name: step_ids_between(first, last)
-- The steps whose uuid has a beginning; more than a few is as bad as two.
SELECT id FROM steps WHERE uuid BETWEEN :first AND :last ORDER BY uuid LIMIT 3;

-- name: is_live(relatable_type, relatable_id, any_action, actions)
-- Whether a workflow that has a step of these actions about this object has not ended.
SELECT EXISTS (
    SELECT 1 FROM steps s
    WHERE s.relatable_type = :relatable_type AND s.relatable_id = :relatable_id
      AND (:any_action OR s.action @in(:actions text))
      AND (s.state IN @unfinished
           OR EXISTS (SELECT 1 FROM steps r WHERE r.uuid = s.workflow_id AND r.state IN @unfinished)
           OR EXISTS (SELECT 1 FROM steps w WHERE w.workflow_id = s.workflow_id AND w.workflow_id <> w.uuid
                      AND w.state IN @unfinished))
) AS live;

-- name: history(step_id)
SELECT id, step_id, from_state, to_state, reason, actor, at, attempt, error
FROM step_transitions WHERE step_id = :step_id ORDER BY id;

-- name: changes_after(after, limit)
-- The history of all steps in the order in which it was written; on PostgreSQL a row may become visible after a later one.
SELECT t.id, t.step_id, s.uuid, s.workflow_id, s.action, s.label, s.queue, s."group", t.from_state, t.to_state, t.reason,
       t.actor, t.at, t.attempt
FROM step_transitions t JOIN steps s ON s.id = t.step_id WHERE t.id > :after ORDER BY t.id LIMIT :limit;

-- name: newest_change()
SELECT coalesce(max(id), 0) AS id FROM step_transitions;

-- name: histories(ids)
SELECT id, step_id, from_state, to_state, reason, actor, at, attempt, error
FROM step_transitions WHERE step_id @in(:ids bigint) ORDER BY step_id, id;

-- name: tree_below(id)
WITH RECURSIVE tree (id, depth) AS (
    SELECT s.id, 0 FROM steps s WHERE s.id = :id
    UNION
    SELECT c.id, t.depth + 1 FROM tree t JOIN steps p ON p.id = t.id JOIN steps c
        ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
)
SELECT t.depth, s.* FROM tree t JOIN steps s ON s.id = t.id;

-- name: steps_of_block(block)
SELECT * FROM steps WHERE block_uuid = :block AND block_uuid <> uuid ORDER BY type, "index", id;

-- name: dependencies_of(id)
SELECT d.* FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id WHERE e.step_id = :id ORDER BY d.id;

-- name: agenda_by_status()
SELECT status, count(*) AS steps FROM steps_agenda GROUP BY status;

-- name: live_workers(now)
SELECT id, hostname, pid, slots, started_at, heartbeat_at, alive_until FROM steps_workers
WHERE alive_until > :now ORDER BY hostname, pid;

-- name: all_workers(now)
-- Includes dead workers until their rows are deleted.
SELECT w.id, w.hostname, w.pid, w.slots, w.started_at, w.heartbeat_at, w.alive_until, w.alive_until > :now AS alive,
       (SELECT count(*) FROM steps s
        WHERE s.id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') AND s.lease_worker = w.id) AS running
FROM steps_workers w ORDER BY w.hostname, w.started_at;

-- name: lanes_of_workers()
SELECT worker_id, queue, action, "group", place FROM steps_worker_lanes ORDER BY worker_id, place, queue, action, "group";

-- name: logs_of_step(step_id)
SELECT id, attempt, at, level, message FROM step_logs WHERE step_id = :step_id ORDER BY id;

-- name: all_groups()
SELECT "group", rotation, lock_owner, lock_token, lock_deadline, current_tick_id, last_tick_completed, last_selected_at
FROM steps_dispatcher ORDER BY rotation IS NULL, rotation, "group";

-- name: recent_ticks(before, limit)
SELECT id, "group", owner, started_at, ended_at, progress, steps_dispatched, duration_ms, error
FROM steps_dispatcher_ticks WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: recent_ticks_of_group(group, before, limit)
SELECT id, "group", owner, started_at, ended_at, progress, steps_dispatched, duration_ms, error
FROM steps_dispatcher_ticks WHERE "group" = :group AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: steps_set_aside(limit)
-- Steps that ended because of what their row holds, by `steps_trouble`.
SELECT s.id, s.action, s.reason, s.error_message FROM steps_trouble t @sqlite(INDEXED BY steps_trouble_set_aside) JOIN steps s ON s.id = t.step_id
WHERE t.state = 'Failed' AND t.reason IN ('refused', 'unreadable') ORDER BY t.step_id DESC LIMIT :limit;

-- name: database_version()
SELECT @sqlite(sqlite_version())@postgres(current_setting('server_version')) AS version;
