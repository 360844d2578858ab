-- What goes with a transition on SQLite: the one definition, for a single row and for a batch.
--
-- SQLite has triggers for rows only, and a trigger for each row of a claim costs half as much again as the claim. So the
-- trigger `steps_changed` runs these statements for one changed row, and a statement that changes many steps
-- (`@effects` in `sql/sqlite/`) runs them for all of its rows together.
--
-- `@changed_rows` are the changed rows, `c`: the new row of `steps`, with `from_state`, the state that it had. A row whose lease
-- was released, or whose own code is done while its children are not, is among them with `from_state = state`.
-- After each name stand the moves that the effect is about; a batch runs only those that can concern it:
--   begins (to Running under a lease), waits (own code done, children are not), concludes (Completed, Skipped),
--   fails (Failed, Stopped, Cancelled, NotRunnable), returns (to Pending), dispatches, releases (the lease of an ended step).

-- effect: history (begins, concludes, fails, returns, dispatches)
-- A claim of a step that no tick has dispatched makes two transitions at once: `claim_token` tells.
INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt, error)
SELECT c.id,
       CASE WHEN t.is_last AND c.from_state = 'Pending' AND c.state = 'Running' THEN 'Dispatched' ELSE c.from_state END,
       CASE WHEN t.is_last THEN c.state ELSE 'Dispatched' END,
       CASE WHEN t.is_last THEN c.reason END,
       c.actor, c.updated_at, c.attempts - (NOT t.is_last),
       CASE WHEN c.state IN ('Failed', 'Stopped') OR c.from_state = 'Running' AND c.state IN ('Pending', 'Completed')
            THEN c.last_error END
FROM @changed_rows CROSS JOIN (SELECT false AS is_last UNION ALL SELECT true) AS t
WHERE c.from_state <> c.state
  AND (t.is_last OR c.from_state = 'Pending' AND c.state = 'Running' AND c.claim_token = c.lease_token);

-- effect: leave_agenda (waits, concludes, fails, releases)
DELETE FROM steps_agenda
WHERE step_id IN (SELECT c.id FROM @changed_rows WHERE c.state NOT IN ('Pending', 'Dispatched') AND c.lease_worker IS NULL);

-- effect: dispatch_on_agenda (dispatches)
UPDATE steps_agenda SET status = 'dispatched'
WHERE step_id IN (SELECT c.id FROM @changed_rows WHERE c.state = 'Dispatched' AND c.from_state <> 'Dispatched');

-- effect: begin_on_agenda (begins)
UPDATE steps_agenda SET status = 'running'
WHERE step_id IN (SELECT c.id FROM @changed_rows WHERE c.state = 'Running' AND c.from_state IN ('Pending', 'Dispatched'));

-- effect: return_to_agenda (returns)
INSERT INTO @agenda
SELECT c.id, CASE WHEN c.placed THEN 'unchecked' ELSE 'new' END, @agenda_entry(c)
FROM @changed_rows WHERE c.state = 'Pending' AND c.from_state <> 'Pending'
ON CONFLICT (step_id) DO UPDATE SET status = excluded.status, due_at = excluded.due_at, key_blocked = excluded.key_blocked;

-- effect: conclude_in_block (concludes, releases)
DELETE FROM steps_unconcluded
WHERE step_id IN (SELECT c.id FROM @changed_rows
                  WHERE c.state IN ('Completed', 'Skipped') AND c.lease_worker IS NULL
                    AND (c.parent_step_id IS NOT NULL OR c.has_dependents));

-- effect: end_in_block (fails, returns, releases)
-- Failed, Skipped under a lease, or back: whether it has ended is what changed.
UPDATE steps_unconcluded SET ended = NOT ended
WHERE step_id IN (SELECT c.id FROM @changed_rows
                  WHERE steps_unconcluded.ended <> (c.state NOT IN ('Pending', 'Dispatched', 'Running')
                                                    AND c.lease_worker IS NULL));

-- effect: mark (waits, concludes, fails, releases)
-- A leaf that ended with its parent decides nothing; a parent may just have been given a child.
INSERT INTO steps_marks ("group", step_id)
SELECT c."group", c.id FROM @changed_rows
WHERE c."group" IS NOT NULL
  AND (c.has_dependents OR c.has_children
       OR c.parent_step_id IS NOT NULL AND coalesce(c.reason, '')
          NOT IN ('parent_skipped', 'parent_cancelled', 'parent_failed', 'parent_not_runnable'))
  AND (c.state NOT IN ('Pending', 'Dispatched', 'Running') OR c.state = 'Running' AND c.own_code_done_at IS NOT NULL);
