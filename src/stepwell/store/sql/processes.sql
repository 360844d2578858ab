-- Tasks of main processes: queueing, what they depend on, rescheduling.

-- name: add_task(task_class, entity, part, main_process, now)!
-- In a fixed order, so that two queueings wait for each other instead of deadlocking.
INSERT INTO steps_tasks (task_class, entity, part, main_process, queued_at)
VALUES (:task_class, :entity, :part, :main_process, :now)
ON CONFLICT (task_class, entity, part) DO NOTHING;

-- name: lock_tasks_of_classes(classes)
SELECT id FROM steps_tasks WHERE task_class @in(:classes text) ORDER BY id @postgres(FOR UPDATE);

-- name: tasks_of_classes(classes, now)
-- A statement of its own after the lock: it sees what the queueing that held the lock has written.
SELECT t.id, t.task_class, t.entity, t.part, t.main_process, t.step_id,
       @task_state(s, w, @time(:now)) AS state
FROM steps_tasks t LEFT JOIN steps s ON s.id = t.step_id LEFT JOIN steps_workers w ON w.id = s.lease_worker
WHERE t.task_class @in(:classes text)
ORDER BY t.id;

-- name: make_task_new(id, main_process, step_id, weight, max_not_completed, max_rescues, now)!
UPDATE steps_tasks SET main_process = :main_process, step_id = :step_id, priority = :weight,
    max_not_completed = :max_not_completed, max_rescues = :max_rescues, queued_at = :now
WHERE id = :id;

-- name: delete_task(id)!
DELETE FROM steps_tasks WHERE id = :id;

-- name: dependencies_of_classes(classes)
SELECT d.task_id, d.depends_on FROM steps_tasks t JOIN steps_task_dependencies d ON d.task_id = t.id
WHERE t.task_class @in(:classes text);

-- name: add_dependency(task_id, depends_on)!
INSERT INTO steps_task_dependencies (task_id, depends_on) VALUES (:task_id, :depends_on);

-- name: delete_dependency(task_id, depends_on)!
DELETE FROM steps_task_dependencies WHERE task_id = :task_id AND depends_on = :depends_on;

-- name: tasks_of_steps(ids)
-- Steps that belong to main processes, with their tasks; a step without one was succeeded by another.
SELECT s.id AS step_id, s.state, s.has_children, t.id AS task_id, t.task_class, t.max_not_completed, t.max_rescues,
       EXISTS (SELECT 1 FROM steps_task_dependencies d WHERE d.task_id = t.id) AS has_dependencies,
       EXISTS (SELECT 1 FROM steps_task_dependencies d WHERE d.depends_on = t.task_class) AS has_dependents
FROM steps s LEFT JOIN steps_tasks t ON t.step_id = s.id
WHERE s.id @in(:ids bigint);

-- name: lock_with_dependencies(step_ids)
-- The tasks whose live steps these are, those that they depend on, and those that depend on them: of two transactions
-- that end two of them, the second one sees both ends. All in one statement and in one order, so that two such
-- transactions wait for each other instead of deadlocking.
SELECT id FROM steps_tasks
WHERE id @in(SELECT t.id FROM steps_tasks t WHERE t.step_id @in(:step_ids bigint)
             UNION
             SELECT e.id FROM steps_tasks t JOIN steps_task_dependencies d ON d.task_id = t.id
                              JOIN steps_tasks e ON e.task_class = d.depends_on
             WHERE t.step_id @in(:step_ids bigint)
             UNION
             SELECT d.task_id FROM steps_tasks t JOIN steps_task_dependencies d ON d.depends_on = t.task_class
             WHERE t.step_id @in(:step_ids bigint))
ORDER BY id @postgres(FOR UPDATE);

-- name: dependents_of(ids)
-- The tasks that depend on the classes of these.
SELECT DISTINCT d.task_id FROM steps_tasks t JOIN steps_task_dependencies d ON d.depends_on = t.task_class
WHERE t.id @in(:ids bigint);

-- name: unmet_dependencies(ids)
-- dependOn, in one definition: what keeps the latest run of these tasks from completing them. A dependee holds it while
-- it is unfinished, and if it completed after that run had begun; one in error does not. The numbers of the history say
-- what came first. Who completes a step by hand counts as a run of it.
SELECT t.id AS task_id, e.task_class, e.part, es.id AS step_id, es.state
FROM steps_tasks t
JOIN steps_task_dependencies d ON d.task_id = t.id
JOIN steps_tasks e ON e.task_class = d.depends_on
JOIN steps es ON es.id = e.step_id
WHERE t.id @in(:ids bigint)
  AND (es.state IN @unfinished OR es.lease_worker IS NOT NULL
       OR es.state IN @concluded
          AND (SELECT max(x.id) FROM step_transitions x WHERE x.step_id = es.id)
              > coalesce((SELECT max(x.id) FROM step_transitions x
                          WHERE x.step_id = t.step_id
                            AND (x.to_state = 'Running' OR substr(coalesce(x.actor, ''), 1, 9) = 'operator:')), 0))
ORDER BY t.id, e.id;

-- name: completed_tasks(ids)
SELECT t.id AS task_id, s.id AS step_id, s.action, s.arguments, s.label, s.queue, s.priority, s.max_retries, s.timeout,
       s.cooldown, s.relatable_type, s.relatable_id, s.concurrency_key, s.concurrency_limit
FROM steps_tasks t JOIN steps s ON s.id = t.step_id
WHERE t.id @in(:ids bigint) AND s.state IN @concluded AND s.lease_worker IS NULL
ORDER BY t.id;

-- name: succeed(task_id, step_id)!
UPDATE steps_tasks SET step_id = :step_id WHERE id = :task_id;

-- name: mark_not_completed(id)!
-- A new step that takes the place of one whose run did not complete the task.
UPDATE steps SET reason = 'not_completed', changed_from = NULL WHERE id = :id AND state = 'Pending';

-- name: hold_on_agenda(id)!
UPDATE steps_agenda SET status = 'held' WHERE step_id = :id AND status IN ('open', 'delayed', 'unchecked');

-- name: held_steps()
SELECT step_id FROM steps_agenda WHERE status = 'held' ORDER BY step_id;

-- name: clear_not_completed(ids)!
UPDATE steps SET reason = 'rescheduled', changed_from = NULL
WHERE id @in(:ids bigint) AND state = 'Pending' AND reason = 'not_completed';

-- name: release_held(ids)!
UPDATE steps_agenda SET status = 'unchecked' WHERE step_id @in(:ids bigint) AND status = 'held';

-- name: add_failed_queueing(main_process, error, message, task_class, task_state, step_id, now)!
INSERT INTO steps_failed_queueings (main_process, at, error, message, task_class, task_state, step_id)
VALUES (:main_process, :now, :error, :message, :task_class, :task_state, :step_id);

-- name: delete_old_failed_queueings(main_process, kept)!
DELETE FROM steps_failed_queueings
WHERE main_process = :main_process
  AND id <= (SELECT id FROM steps_failed_queueings WHERE main_process = :main_process ORDER BY id DESC LIMIT 1 OFFSET :kept);

-- name: resolve_failed_queueings(main_process, now)!
-- The main process was queued.
UPDATE steps_failed_queueings SET resolved_at = :now WHERE main_process = :main_process AND resolved_at IS NULL;

-- name: failed_queueings(main_process, limit)
-- The newest ones, of one main process or (empty) of all.
SELECT id, main_process, at, error, message, task_class, task_state, step_id, resolved_at FROM steps_failed_queueings
WHERE :main_process IN ('', main_process) ORDER BY id DESC LIMIT :limit;

-- name: all_tasks(now)
SELECT t.id, t.task_class, t.entity, t.part, t.main_process, t.step_id, t.priority, t.queued_at,
       @task_state(s, w, @time(:now)) AS state
FROM steps_tasks t LEFT JOIN steps s ON s.id = t.step_id LEFT JOIN steps_workers w ON w.id = s.lease_worker
ORDER BY t.main_process, t.task_class, t.entity, t.id;

-- name: task_of_step(step_id)
-- The task whose live step this is, and the newest failure of a queueing that its state did not allow, or of the main
-- process that has queued it, if that has not been queued since.
SELECT t.id, t.task_class, coalesce(f.main_process, t.main_process) AS main_process, f.at, f.message
FROM steps_tasks t
LEFT JOIN steps_failed_queueings f ON f.id = (
    SELECT max(x.id) FROM steps_failed_queueings x
    WHERE x.resolved_at IS NULL AND (x.step_id = t.step_id OR x.main_process = t.main_process AND x.at >= t.queued_at))
WHERE t.step_id = :step_id;

-- name: recent_runs(limit, now)
-- How many of the latest runs began in each class, and how long they took: of the newest `limit` runs of tasks. A run lasts
-- until the next change of its step. The runs are those of the live steps of tasks and of the newest steps that were one.
SELECT run.task_class, (SELECT max(t.priority) FROM steps_tasks t WHERE t.task_class = run.task_class) AS priority,
       count(*) AS runs,
       sum(@sqlite((julianday(run.ended_at) - julianday(run.at)) * 86400.0)
           @postgres(CAST(extract(epoch FROM run.ended_at - run.at) AS double precision))) AS seconds
FROM (SELECT s.label AS task_class, x.at,
             coalesce((SELECT e.at FROM step_transitions e WHERE e.step_id = x.step_id AND e.id > x.id
                       ORDER BY e.id LIMIT 1), @time(:now)) AS ended_at
      FROM (SELECT id FROM (SELECT id FROM steps @sqlite(INDEXED BY steps_of_tasks) WHERE belongs_to = 'process' ORDER BY id DESC LIMIT :limit) AS newest
            UNION SELECT step_id FROM steps_tasks WHERE step_id IS NOT NULL) AS task
      -- In this order, and without a condition on `x` alone: SQLite would begin with the whole history, or filter it first.
      CROSS JOIN steps s CROSS JOIN step_transitions x
      WHERE s.id = task.id AND x.step_id = s.id AND coalesce(x.to_state, s.state) = 'Running' ORDER BY x.id DESC LIMIT :limit) AS run
GROUP BY run.task_class ORDER BY run.task_class;
