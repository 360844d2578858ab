-- The invariants of SPEC 11 as questions to the tables: each returns the steps that violate it, and should return none.

-- name: invariant_1_legal_transitions()
SELECT t.step_id AS id, 'its history has ' || t.from_state || ' to ' || t.to_state || ' by ' || coalesce(t.actor, 'nobody') AS finding
FROM step_transitions t
WHERE t.from_state IS NOT NULL AND NOT @legal(t.from_state, t.to_state, t.actor);

-- name: invariant_1_history_is_a_chain()
SELECT step_id AS id, 'its history leaves ' || from_state || ' where it had come to ' || coalesce(before, 'nothing') AS finding
FROM (SELECT step_id, from_state, lag(to_state) OVER (PARTITION BY step_id ORDER BY id) AS before,
             row_number() OVER (PARTITION BY step_id ORDER BY id) AS place FROM step_transitions) AS chain
WHERE CASE WHEN place = 1 THEN from_state IS NOT NULL ELSE from_state IS NULL OR from_state <> before END;

-- name: invariant_1_history_ends_in_the_state()
SELECT s.id, 'it is ' || s.state || ' and its history ends in ' || coalesce(t.to_state, 'nothing') AS finding
FROM steps s
LEFT JOIN step_transitions t ON t.step_id = s.id AND t.id = (SELECT max(x.id) FROM step_transitions x WHERE x.step_id = s.id)
WHERE t.to_state IS NULL OR t.to_state <> s.state;

-- name: invariant_2_lease_only_while_claimed()
SELECT id, 'it is ' || state || ' with a lease' AS finding FROM steps
WHERE lease_worker IS NOT NULL AND (state IN ('Pending', 'Dispatched') OR lease_token = 0)
UNION ALL
SELECT id, 'it runs its own code without a lease' FROM steps
WHERE state = 'Running' AND own_code_done_at IS NULL AND lease_worker IS NULL
UNION ALL
SELECT id, 'it waits for its children with a lease' FROM steps
WHERE state = 'Running' AND own_code_done_at IS NOT NULL AND lease_worker IS NOT NULL;

-- name: invariant_3_ended_stays_ended()
SELECT step_id AS id, 'it left ' || from_state || ' by ' || coalesce(actor, 'nobody') AS finding FROM step_transitions
WHERE from_state IN ('Completed', 'Skipped')
   OR from_state IN ('Failed', 'Stopped', 'Cancelled') AND substr(coalesce(actor, ''), 1, 9) <> 'operator:';

-- name: invariant_4_no_step_is_lost()
SELECT s.id, 'it is Pending, may run, and nothing announces it' AS finding
FROM steps s JOIN step_readiness r ON r.step_id = s.id
WHERE s.state = 'Pending' AND s.placed
  AND @ready(r)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM steps_marks m WHERE m."group" = s."group")
UNION ALL
SELECT s.id, 'it was written by plain SQL and is not on the agenda' FROM steps s
WHERE NOT s.placed AND s.state = 'Pending' AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id)
UNION ALL
SELECT s.id, 'it is ' || s.state || ' and not on the agenda' FROM steps s
WHERE (s.state = 'Dispatched' OR s.lease_worker IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

-- name: invariant_5_parent_after_children()
SELECT p.id, 'it is Completed and its child ' || c.id || ' is ' || c.state AS finding
FROM steps p JOIN steps c ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
WHERE p.state = 'Completed' AND c.state IN ('Pending', 'Dispatched', 'Running');

-- name: invariant_4_links_agree()
SELECT c.id, 'its parent ' || c.parent_step_id || ' has another child block' AS finding
FROM steps c JOIN steps p ON p.id = c.parent_step_id
WHERE c.placed AND (p.child_block_uuid IS NULL OR c.block_uuid <> p.child_block_uuid OR NOT p.has_children)
UNION ALL
SELECT c.id, 'it is in another group or workflow than its parent' FROM steps c JOIN steps p ON p.id = c.parent_step_id
WHERE c.placed AND p.placed AND (c."group" <> p."group" OR c.workflow_id <> p.workflow_id);

-- name: invariant_1_times_do_not_run_backwards()
SELECT step_id AS id, 'its history goes back in time' AS finding
FROM (SELECT step_id, at, lag(at) OVER (PARTITION BY step_id ORDER BY id) AS before FROM step_transitions) AS chain
WHERE at < before;

-- name: invariant_7_keys_are_not_exceeded()
-- The other limits are settings: whoever lowers one lets what runs already go on.
SELECT min(s.id) AS id, 'with its key ' || s.concurrency_key || ' ' || count(*) || ' steps hold a lease, and '
       || max(s.concurrency_limit) || ' may' AS finding
FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.status = 'running' AND a.concurrency_key IS NOT NULL AND s.lease_worker IS NOT NULL
GROUP BY s.concurrency_key HAVING count(*) > max(s.concurrency_limit);
