-- The tasks of main processes with their states, by the clock of the database.
DROP VIEW IF EXISTS steps_main_process_tasks;
CREATE VIEW steps_main_process_tasks AS
SELECT t.id, t.main_process, t.task_class, t.entity, t.part, @task_state(s, w, @database_time) AS state, t.step_id,
       t.priority, t.queued_at
FROM steps_tasks t LEFT JOIN steps s ON s.id = t.step_id LEFT JOIN steps_workers w ON w.id = s.lease_worker;
