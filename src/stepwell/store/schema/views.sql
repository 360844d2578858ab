-- The views: one definition for both databases, re-created by `migrate` whenever they have changed.

-- Which worker serves which lane (of one group, or of all if it is empty), and until when it counts as alive; `closed`: a limit of 0 applies.
DROP VIEW IF EXISTS steps_lanes_served;
CREATE VIEW steps_lanes_served AS
SELECT l.queue, l.action, l."group", l.worker_id, w.alive_until,
       EXISTS (SELECT 1 FROM steps_limits m
               WHERE m.maximum = 0
                 AND (m.kind = 'queue' AND m.name = l.queue OR m.kind = 'action' AND m.name = l.action)) AS closed
FROM steps_worker_lanes l JOIN steps_workers w ON w.id = l.worker_id;

-- The conditions under which a step is ready: one definition for the dispatcher and for `explain`.
DROP VIEW IF EXISTS step_readiness;
CREATE VIEW step_readiness AS
SELECT s.id AS step_id,
       s.parent_step_id IS NULL OR EXISTS (
           SELECT 1 FROM steps p
           WHERE p.id = s.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL
       ) AS parent_ready,
       NOT EXISTS (
           SELECT 1 FROM steps_unconcluded u
           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" < s."index"
       ) AS order_met,
       CASE
           WHEN s.dependencies = 0 THEN true
           WHEN s.trigger_rule = 'all_concluded' THEN NOT EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND (d.state NOT IN @concluded OR d.lease_worker IS NOT NULL))
           WHEN s.trigger_rule = 'all_ended' THEN NOT EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND (d.state IN @unfinished OR d.lease_worker IS NOT NULL))
           -- any_concluded: the first that completed; or all have ended, and one was skipped.
           ELSE EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND d.state = 'Completed' AND d.lease_worker IS NULL)
             OR EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND d.state = 'Skipped' AND d.lease_worker IS NULL)
             AND NOT EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND (d.state IN @unfinished OR d.lease_worker IS NOT NULL))
       END AS dependencies_met,
       s.retries <= s.max_retries AS retries_left,
       NOT EXISTS (SELECT 1 FROM steps_paused_workflows w WHERE w.workflow_id = s.workflow_id) AS workflow_runs,
       -- A predecessor failed, was cancelled or cannot run: the step cannot become ready unless an operator intervenes.
       EXISTS (
           SELECT 1 FROM steps_unconcluded u JOIN steps b ON b.id = u.step_id
           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" < s."index" AND u.ended
             AND b.state IN @troubled
       ) OR s.dependencies > 0 AND CASE s.trigger_rule
           WHEN 'all_concluded' THEN EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id AND d.state IN @troubled
                 AND d.lease_worker IS NULL)
           WHEN 'any_concluded' THEN NOT EXISTS (
               SELECT 1 FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
               WHERE e.step_id = s.id
                 AND (d.state IN ('Pending', 'Dispatched', 'Running', 'Completed', 'Skipped') OR d.lease_worker IS NOT NULL))
           ELSE false
       END AS unsatisfiable
FROM steps s;
