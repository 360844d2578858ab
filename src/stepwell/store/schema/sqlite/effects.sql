-- The effects of a transition on SQLite, defined once for a single row and for a batch.
--
-- SQLite has only row triggers, and firing one for each row adds half to the cost of a claim. So the trigger
-- `steps_changed` runs these statements for one changed row, and a statement that changes many steps (`@effects` in
-- `sql/sqlite/`) runs them once for all its rows.
--
-- `@changed_rows` are the changed rows, as `c`: the new row of `steps`, with `from_state`, its previous state. In some of
-- them `from_state = state`: a lease was released, or own code is done while the children are not.
-- The moves to which an effect applies follow its name; a batch runs only the effects of the moves that it makes:
--   begins (to Running under a lease), waits (own code done, children not), concludes (Completed, Skipped),
--   fails (Failed, Stopped, Cancelled, NotRunnable), returns (to Pending), dispatches, releases (the lease of an ended step),
--   leaves_trouble (it leaves Failed, Stopped, Cancelled or NotRunnable); alone: any move, of a single row only.

-- effect: history (begins, concludes, fails, returns, dispatches)
-- The claim of an open step makes two transitions at once, Pending to Dispatched to Running: `claim_token` shows it.
INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt, error)
SELECT c.id,
       CASE WHEN t.is_last AND c.from_state = 'Pending' AND c.state = 'Running' THEN 'Dispatched' ELSE c.from_state END,
       CASE WHEN t.is_last THEN c.state ELSE 'Dispatched' END,
       CASE WHEN t.is_last THEN c.reason END,
       c.actor, c.updated_at, c.attempts - (NOT t.is_last),
       CASE WHEN c.state IN @failed OR c.from_state = 'Running' AND c.state IN ('Pending', 'Completed')
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
SELECT c.id, @returned(c), @agenda_entry(c)
FROM @changed_rows WHERE c.state = 'Pending' AND c.from_state <> 'Pending'
ON CONFLICT (step_id) DO UPDATE SET status = excluded.status, due_at = excluded.due_at, since = excluded.since, key_blocked = excluded.key_blocked;

-- effect: conclude_in_block (concludes, releases)
DELETE FROM steps_unconcluded
WHERE step_id IN (SELECT c.id FROM @changed_rows
                  WHERE c.state IN @concluded AND c.lease_worker IS NULL
                    AND (c.parent_step_id IS NOT NULL OR c.has_dependents));

-- effect: end_in_block (fails, releases)
-- Ended without having concluded. (In two statements: a condition on `ended` inside the sub-select would be correlated, and
-- SQLite would read the whole table for it.)
UPDATE steps_unconcluded SET ended = true
WHERE NOT ended AND step_id IN (SELECT c.id FROM @changed_rows
                                WHERE c.state NOT IN @unfinished AND c.lease_worker IS NULL);

-- effect: reopen_in_block (returns)
UPDATE steps_unconcluded SET ended = false
WHERE ended AND step_id IN (SELECT c.id FROM @changed_rows
                            WHERE c.state IN @unfinished OR c.lease_worker IS NOT NULL);

-- effect: mark (waits, concludes, fails, releases)
-- A leaf that a cascade ended decides nothing; one with `has_children` may just have been given a child.
INSERT INTO steps_marks ("group", step_id)
SELECT c."group", c.id FROM @changed_rows
WHERE c."group" IS NOT NULL
  AND (c.has_dependents OR c.has_children
       OR c.parent_step_id IS NOT NULL AND coalesce(c.reason, '')
          NOT IN @ended_with_parent)
  AND (c.state NOT IN @unfinished OR c.state = 'Running' AND c.own_code_done_at IS NOT NULL);

-- effect: tally (dispatches, alone)
-- The batches of `claim` and `finish_many` tally in Python, which knows these columns already: `store/engine/tallying.py` (measured: GROUP BY
-- takes 1.2 µs for each step, Python 0.3). A run is counted when it ends, not when the children of its step have ended.
INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number, runs)
SELECT c.from_state, c.state, c.action, c.queue, c."group", c.hostname, c.parent_step_id IS NOT NULL, c.is_throttled, c.updated_at, count(*),
       group_concat(CASE WHEN c.from_state = 'Running' AND c.state NOT IN ('Pending', 'Cancelled')
                          AND (c.state = 'Running' OR c.own_code_done_at IS NULL OR c.own_code_done_at = c.completed_at)
                         THEN c.duration END)
FROM @changed_rows
WHERE c.from_state <> c.state OR c.state = 'Running' AND c.own_code_done_at IS NOT NULL
GROUP BY c.from_state, c.state, c.action, c.queue, c."group", c.parent_step_id IS NOT NULL, c.is_throttled, c.hostname;

-- effect: enter_trouble (fails)
INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at)
SELECT @trouble(c)
FROM @changed_rows
WHERE c.state IN @troubled AND c.from_state <> c.state
ON CONFLICT (step_id) DO UPDATE SET state = excluded.state, reason = excluded.reason, fingerprint = excluded.fingerprint,
    cause = excluded.cause, cause_fingerprint = NULL, ended_at = excluded.ended_at;

-- effect: leave_trouble (leaves_trouble)
DELETE FROM steps_trouble
WHERE step_id IN (SELECT c.id FROM @changed_rows WHERE c.from_state IN @troubled
                  AND c.state NOT IN @troubled);
