-- The invariants as queries: each returns the steps that violate it, and should return none.

-- name: invariant_1_legal_transitions()
SELECT t.step_id AS id, 'illegal transition in its history: ' || t.from_state || ' to ' || t.to_state || ' by ' || coalesce(t.actor, 'unknown actor') AS finding
FROM step_transitions t
WHERE t.from_state IS NOT NULL AND NOT @legal(t.from_state, t.to_state, t.actor);

-- name: invariant_1_history_is_a_chain()
SELECT step_id AS id, 'its history has a transition from ' || coalesce(from_state, 'nothing') || ' after one to ' || coalesce(before, 'nothing') AS finding
FROM (SELECT step_id, from_state, lag(to_state) OVER (PARTITION BY step_id ORDER BY id) AS before,
             row_number() OVER (PARTITION BY step_id ORDER BY id) AS place FROM step_transitions) AS chain
WHERE CASE WHEN place = 1 THEN from_state IS NOT NULL ELSE from_state IS NULL OR from_state <> before END;

-- name: invariant_1_history_ends_in_the_state()
SELECT s.id, 'it is ' || s.state || ' but its history ends in ' || coalesce(t.to_state, 'nothing') AS finding
FROM steps s
LEFT JOIN step_transitions t ON t.step_id = s.id AND t.id = (SELECT max(x.id) FROM step_transitions x WHERE x.step_id = s.id)
WHERE t.to_state IS NULL OR t.to_state <> s.state;

-- name: invariant_1_workflows_agree_with_their_steps()
-- Not while marks of the group wait for a tick: plain SQL may have ended a step.
SELECT f.id, 'its workflow ' || f.workflow_id || ' is ' || f.state || ', but its steps say ' || f.outcome AS finding
FROM (SELECT w.id AS workflow_id, w.state, o.outcome,
             (SELECT min(s.id) FROM steps s WHERE s.workflow_id = w.id AND s.workflow_id <> s.uuid) AS id
      FROM steps_workflows w JOIN steps_workflow_outcomes o ON o.workflow_id = w.id
      WHERE @outdated(w, o)) AS f
JOIN steps s ON s.id = f.id
WHERE NOT EXISTS (SELECT 1 FROM steps_marks m WHERE m."group" = s."group")
UNION ALL
SELECT min(s.id), 'its workflow ' || w.id || ' is ' || w.state || ', but the history of that ends in ' || coalesce(t.to_state, 'nothing')
FROM steps_workflows w JOIN steps s ON s.workflow_id = w.id AND s.workflow_id <> s.uuid
LEFT JOIN steps_workflow_transitions t ON t.workflow_id = w.id
     AND t.id = (SELECT max(x.id) FROM steps_workflow_transitions x WHERE x.workflow_id = w.id)
WHERE t.to_state IS NULL OR t.to_state <> w.state
GROUP BY w.id, w.state, t.to_state;

-- name: invariant_2_lease_only_while_claimed()
SELECT id, 'it is ' || state || ' but has a lease' AS finding FROM steps
WHERE lease_worker IS NOT NULL AND (state IN ('Pending', 'Dispatched') OR lease_token = 0)
UNION ALL
SELECT id, 'it runs its own code without a lease' FROM steps
WHERE state = 'Running' AND own_code_done_at IS NULL AND lease_worker IS NULL
UNION ALL
SELECT id, 'it waits for its children but has a lease' FROM steps
WHERE state = 'Running' AND own_code_done_at IS NOT NULL AND lease_worker IS NOT NULL;

-- name: invariant_3_ended_stays_ended()
SELECT step_id AS id, 'it left ' || from_state || ' by ' || coalesce(actor, 'unknown actor') AS finding FROM step_transitions
WHERE from_state IN @concluded
   OR from_state IN @retriable AND substr(coalesce(actor, ''), 1, 9) <> 'operator:';

-- name: invariant_4_no_step_is_lost()
SELECT s.id, 'it is ready, but neither on the agenda nor marked' AS finding
FROM steps s JOIN step_readiness r ON r.step_id = s.id
WHERE s.state = 'Pending' AND s.placed
  AND @ready(r)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id)
  AND NOT EXISTS (SELECT 1 FROM steps_marks m WHERE m."group" = s."group")
UNION ALL
SELECT s.id, 'it was inserted with plain SQL but is not on the agenda' FROM steps s
WHERE NOT s.placed AND s.state = 'Pending' AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id)
UNION ALL
SELECT s.id, 'it is ' || s.state || ' but not on the agenda' FROM steps s
WHERE (s.state = 'Dispatched' OR s.lease_worker IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

-- name: invariant_4_no_parent_is_forgotten()
-- A parent that waits although none of its children is unfinished, and that no tick will look at: a mark is committed with
-- the change that it is about, and a tick deletes marks only after it has decided, under the lock of the group.
-- Only rows with children are read; the children of one parent only if it has none that is unfinished.
SELECT p.id, 'its own code is done and it waits for none of its children, but nothing marks it' AS finding
FROM steps p @sqlite(INDEXED BY steps_parents_by_block)
WHERE p.has_children AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps c ON c.id = u.step_id
                  WHERE u.block_uuid = p.child_block_uuid AND NOT u.ended
                    AND (c.state IN @unfinished OR c.lease_worker IS NOT NULL))
  AND NOT EXISTS (SELECT 1 FROM steps_marks m JOIN steps c ON c.id = m.step_id
                  WHERE m."group" = p."group" AND (c.id = p.id OR c.parent_step_id = p.id))
  AND NOT EXISTS (SELECT 1 FROM steps_dispatcher d WHERE d."group" = p."group" AND d.lock_owner IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps c WHERE c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
                  AND (c.state IN @unfinished OR c.lease_worker IS NOT NULL));

-- name: invariant_5_parent_after_children()
SELECT p.id, 'it is Completed but its child ' || c.id || ' is ' || c.state AS finding
FROM steps p JOIN steps c ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
WHERE p.state = 'Completed' AND c.state IN @unfinished;

-- name: invariant_4_links_agree()
SELECT c.id, 'its block is not the child block of its parent ' || c.parent_step_id AS finding
FROM steps c JOIN steps p ON p.id = c.parent_step_id
WHERE c.placed AND (p.child_block_uuid IS NULL OR c.block_uuid <> p.child_block_uuid OR NOT p.has_children)
UNION ALL
SELECT c.id, 'its group or workflow differs from that of its parent' FROM steps c JOIN steps p ON p.id = c.parent_step_id
WHERE c.placed AND p.placed AND (c."group" <> p."group" OR c.workflow_id <> p.workflow_id);

-- name: invariant_1_times_do_not_run_backwards()
SELECT step_id AS id, 'its history has a timestamp earlier than the one before' AS finding
FROM (SELECT step_id, at, lag(at) OVER (PARTITION BY step_id ORDER BY id) AS before FROM step_transitions) AS chain
WHERE at < before;

-- name: invariant_1_times_follow_the_tree()
-- A moment that is rebuilt from the history must be one that existed: a parent completes after its children, and a step
-- starts after its parent, its dependencies and the index before its own. (Concluded states are final. The order of a block
-- is not checked where a step joined it after the next index had started; at the same moment, the number of the transition decides.)
SELECT p.id, 'its history has it Completed before its child ' || c.id AS finding
FROM steps p JOIN steps c ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
WHERE p.state = 'Completed' AND p.reason = 'children_concluded' AND c.type = 'default'
  AND (SELECT max(t.at) FROM step_transitions t WHERE t.step_id = p.id)
      < (SELECT max(t.at) FROM step_transitions t WHERE t.step_id = c.id AND t.to_state IN @concluded)
UNION ALL
SELECT c.id, 'its history has it Running before its parent ' || c.parent_step_id FROM steps c
WHERE c.parent_step_id IS NOT NULL
  AND (SELECT min(t.at) FROM step_transitions t WHERE t.step_id = c.id AND t.to_state = 'Running')
      < (SELECT min(t.at) FROM step_transitions t WHERE t.step_id = c.parent_step_id AND t.to_state = 'Running')
UNION ALL
SELECT s.id, 'its history has it Running before its dependency ' || e.depends_on_id || ' had concluded'
FROM step_dependencies e JOIN steps s ON s.id = e.step_id
WHERE s.trigger_rule = 'all_concluded'
  AND (SELECT min(t.at) FROM step_transitions t WHERE t.step_id = s.id AND t.to_state = 'Running')
      < (SELECT max(t.at) FROM step_transitions t WHERE t.step_id = e.depends_on_id AND t.to_state IN @concluded)
UNION ALL
SELECT id, 'its history has it Running before the index before its own had concluded'
FROM (SELECT id, started, started_as, lag(created) OVER blocks AS joined, lag(created_as) OVER blocks AS joined_as,
             lag(ended) OVER blocks AS ended_before
      FROM (SELECT s.block_uuid, s.type, s."index", min(s.id) AS id, max(s.created_at) AS created,
                   max((SELECT min(t.id) FROM step_transitions t WHERE t.step_id = s.id)) AS created_as,
                   min((SELECT min(t.id) FROM step_transitions t WHERE t.step_id = s.id AND t.to_state = 'Running')) AS started_as,
                   min((SELECT min(t.at) FROM step_transitions t WHERE t.step_id = s.id AND t.to_state = 'Running')) AS started,
                   max((SELECT max(t.at) FROM step_transitions t
                        WHERE t.step_id = s.id AND t.to_state IN @concluded)) AS ended
            FROM steps s WHERE s.block_uuid <> s.uuid GROUP BY s.block_uuid, s.type, s."index") AS levels
      WINDOW blocks AS (PARTITION BY block_uuid, type ORDER BY "index")) AS level
WHERE started < ended_before AND (joined < started OR joined = started AND joined_as < started_as);

-- name: invariant_7_keys_are_not_exceeded()
-- Only keys: the other limits are settings, and lowering one does not stop steps that already run.
SELECT min(s.id) AS id, 'concurrency key ' || s.concurrency_key || ' exceeds its limit: ' || count(*) || ' steps hold a lease, limit '
       || max(s.concurrency_limit) AS finding
FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.status = 'running' AND a.concurrency_key IS NOT NULL AND s.lease_worker IS NOT NULL
GROUP BY s.concurrency_key HAVING count(*) > max(s.concurrency_limit);

-- name: invariant_8_counters_agree()
-- The counters are the rows of `steps`, added up. (As of one moment: a single statement.)
SELECT 0 AS id, sum(said) || ' counted as ' || state || ' (action ' || action || ', queue ' || queue || ', group ' || "group" || ', host '
       || hostname || CASE WHEN child THEN ', child' ELSE '' END || CASE WHEN throttled THEN ', throttled' ELSE '' END
       || '), but there are ' || sum(are) AS finding
FROM (
    SELECT state, action, queue, "group", hostname, child, throttled, number AS said, 0 AS are FROM steps_totals
    UNION ALL SELECT @counted(t, to_state), t.number, 0 FROM steps_tally t WHERE t.to_state IS NOT NULL
    UNION ALL SELECT @counted(t, from_state), - t.number, 0 FROM steps_tally t WHERE t.from_state IS NOT NULL
    UNION ALL SELECT @counted(s, state), 0, 1 FROM (SELECT x.*, parent_step_id IS NOT NULL AS child FROM steps x) AS s
) AS both_ways
GROUP BY state, action, queue, "group", hostname, child, throttled HAVING sum(said) <> sum(are);

-- name: invariant_8_trouble_agrees()
SELECT s.id, 'it is ' || s.state || ', but `steps_trouble` says ' || coalesce(t.state, 'nothing') AS finding
FROM steps s LEFT JOIN steps_trouble t ON t.step_id = s.id
WHERE s.state IN @troubled AND (t.state IS NULL OR t.state <> s.state OR t.action <> s.action)
UNION ALL
SELECT t.step_id, '`steps_trouble` says that it is ' || t.state || ', but it is ' || coalesce(s.state, 'deleted')
FROM steps_trouble t LEFT JOIN steps s ON s.id = t.step_id
WHERE s.id IS NULL OR s.state NOT IN @troubled;

-- name: invariant_8_causes_agree()
-- Failures by cause are the rows of `steps_trouble`, added up.
SELECT 0 AS id, sum(said) || ' failures counted with the fingerprint ' || fingerprint || ' and ' || sum(said_behind) || ' behind them, but there are '
       || sum(alike) || ' and ' || sum(behind) AS finding
FROM (
    SELECT fingerprint, number AS said, behind AS said_behind, 0 AS alike, 0 AS behind FROM steps_causes
    UNION ALL SELECT fingerprint, number, behind, 0, 0 FROM steps_causes_tally
    UNION ALL SELECT @cause(t), 0, 0, @alike(t), @behind(t) FROM steps_trouble t WHERE @cause(t) IS NOT NULL
) AS both_ways
GROUP BY fingerprint HAVING sum(said) <> sum(alike) OR sum(said_behind) <> sum(behind)
UNION ALL
SELECT step_id, 'its cause is step ' || cause || ', whose fingerprint `steps_trouble` does not say' FROM steps_trouble
WHERE cause > 0 AND cause_fingerprint IS NULL;
