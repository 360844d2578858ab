-- name: finish_many(ids, endings, actor, now, batch)
-- `finish` for a batch; an ending is [id, token, response, duration].
UPDATE steps SET @batch_to(CASE WHEN has_children THEN 'Running' ELSE 'Completed' END), @own_code_done,
    response = coalesce(json_extract(ending.value, '$[2]'), response), last_error = NULL,
    duration = json_extract(ending.value, '$[3]')
FROM json_each(:endings) AS ending
WHERE steps.id = json_extract(ending.value, '$[0]') AND state = 'Running'
  AND lease_token = json_extract(ending.value, '$[1]') AND lease_worker IS NOT NULL;
@effects(waits, concludes);
SELECT json_group_array(json_array(id, state, parent_step_id IS NOT NULL OR has_dependents OR has_children,
                                   belongs_to))
FROM steps WHERE id @in(:ids bigint) AND batch = :batch;
