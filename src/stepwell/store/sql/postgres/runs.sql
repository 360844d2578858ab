-- name: finish_many(ids, tokens, responses, durations, actor, now)
-- `finish` for a batch.
UPDATE steps SET @to(CASE WHEN has_children THEN 'Running' ELSE 'Completed' END), @own_code_done,
    response = coalesce(CAST(ending.response AS json), steps.response), last_error = NULL, duration = ending.duration
FROM unnest(CAST(:ids AS bigint[]), CAST(:tokens AS bigint[]), CAST(:responses AS text[]),
            CAST(:durations AS double precision[])) AS ending (id, token, response, duration)
WHERE steps.id = ending.id AND state = 'Running' AND lease_token = ending.token AND lease_worker IS NOT NULL
RETURNING steps.id, state, parent_step_id IS NOT NULL OR has_dependents OR has_children AS decides, belongs_to;
